"""What a study found, as a record and as a page."""

from mercer.report.making import study_of
from mercer.report.page import report_html, write_report
from mercer.report.study import Study

__all__ = ["Study", "report_html", "study_of", "write_report"]
