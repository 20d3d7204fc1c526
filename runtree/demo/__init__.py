"""The demonstration: a lead fans out one sub-agent for each file of a folder, and each summarizes its file on a real model."""

from .agents import make_lead
from .folder import DOCUMENTS, assignment_of, list_files

__all__ = ["DOCUMENTS", "assignment_of", "list_files", "make_lead"]
