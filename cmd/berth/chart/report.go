package chart

import (
	_ "embed" // of the page
	"html/template"
	"io"
)

// Report is a page that needs no other file: figures, and what a command has printed.
type Report struct {
	Title string
	// Command is the command line that made it.
	Command string
	Figures []template.HTML
	// Text is what the command prints, and what the figures are drawn from.
	Text string
}

//go:embed report.html
var reportText string

var reportPage = template.Must(template.New("report").Parse(reportText))

// Write writes the page.
func (r Report) Write(w io.Writer) error {
	return reportPage.Execute(w, struct {
		Report
		Style template.CSS
	}{r, template.CSS(CSS)}) //nolint:gosec // a constant
}
