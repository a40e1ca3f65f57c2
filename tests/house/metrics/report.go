package metrics

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// Row is one figure as a single number.
type Row struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Goal  string  `json:"goal,omitempty"`

	format string
}

func (r Row) text(v float64) string {
	switch r.format {
	case "%":
		return strconv.FormatFloat(100*v, 'f', 1, 64) + " %"
	case ".":
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Summary is one row for each figure. Names stay the same from run to run.
func (f *Figures) Summary() []Row {
	var rows []Row
	add := func(name string, value float64, goal, format string) {
		rows = append(rows, Row{Name: name, Value: value, Goal: goal, format: format})
	}
	count := func(name string, n int, goal string) { add(name, float64(n), goal, "") }

	count("code lines", f.Total.Code, "4,000 fewer")
	for _, a := range f.Areas {
		count("code lines in "+a.Name, a.Code, "")
	}
	add("comment share", f.Total.CommentShare(), "14 to 20 %", "%")
	over := func(m Measure, what string) {
		count(fmt.Sprintf("%s over %d", what, m.Limit), len(m.Over), "0")
		count("most "+what, m.Max.N, "")
	}
	over(f.Methods, "methods of a type")
	over(f.Fields, "fields of a struct")
	count("contexts in structs", len(f.Contexts), "0")
	count("fields promoted twice", len(f.PromotedTwice), "0")
	over(f.Folders, "files of a folder")
	over(f.FunctionLines, "lines of a function")
	over(f.FileLines, "lines of a file")
	over(f.TestLines, "lines of a test file")
	count("code lines over 120 columns", len(f.WideCode), "0")
	count("comment lines over 120 columns", len(f.WideComments), "0")
	add("one-word function names", f.Names.OneWordShare(), "under 35 %", "%")
	add("letters of a function name", f.Names.Letters, "over 11", ".")
	count("two-way arrows between folders", len(f.FolderPairs), "0")
	calls, up, pairs := 0, 0, 0
	for _, c := range f.InnerCalls {
		calls, up, pairs = calls+c.Calls, up+c.Up, pairs+len(c.Pairs)
	}
	count("calls between files of a package", calls, "")
	count("calls that run back up", up, "")
	count("two-way pairs of files", pairs, "")
	if f.Way != nil {
		count("event's way: declarations", f.Way.Declarations, "")
		count("event's way: lines", f.Way.Lines, "900")
		count("event's way: files", f.Way.Files, "")
	}
	return rows
}

// WriteText prints the summary, each row beside what it was before, and then what lies behind the numbers.
func (f *Figures) WriteText(w io.Writer, before []Row) error {
	was := map[string]float64{}
	for _, r := range before {
		was[r.Name] = r.Value
	}
	t := &table{tabs: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row("figure", "before", "now", "goal")
	for _, r := range f.Summary() {
		old := "-"
		if v, ok := was[r.Name]; ok {
			old = r.text(v)
		}
		t.row(r.Name, old, r.text(r.Value), r.Goal)
	}
	f.writeSizes(t)
	f.writeArrows(t)
	f.writePackages(t)
	if f.Way != nil {
		f.writeWay(t)
	}
	return t.close()
}

func (f *Figures) writeSizes(t *table) {
	t.items("Types with more than 25 methods", f.Methods.Over)
	t.items("Structs with more than 20 fields", f.Fields.Over)
	t.items("Contexts in structs", f.Contexts)
	t.items("Fields promoted through more than one embedding (uses)", f.PromotedTwice)
	t.items("Folders with more than 30 files", f.Folders.Over)
	t.items("Functions over 80 lines", f.FunctionLines.Over)
	t.items("Files over 500 lines", f.FileLines.Over)
	t.items("Test files over 800 lines", f.TestLines.Over)
}

func (f *Figures) writeArrows(t *table) {
	if len(f.FolderPairs) > 0 {
		t.title("Folders that import each other")
		for _, p := range f.FolderPairs {
			t.row(p.A, p.B, fmt.Sprint(p.AtoB), fmt.Sprint(p.BtoA))
		}
	}
	t.title("Calls between files of a package")
	t.row("package", "calls", "back up", "two-way pairs")
	for _, c := range f.InnerCalls {
		if c.Up > 0 {
			t.row(c.Package, fmt.Sprint(c.Calls), fmt.Sprint(c.Up), fmt.Sprint(len(c.Pairs)))
		}
	}
}

func (f *Figures) writePackages(t *table) {
	names := map[string]PackageNames{}
	for _, n := range f.Names.ByPackage {
		names[n.Name] = n
	}
	t.title("Packages")
	t.row("package", "files", "code", "comments", "share", "functions", "one word", "letters")
	for _, p := range f.Packages {
		n := names[p.Name]
		t.row(p.Name, fmt.Sprint(p.Files), fmt.Sprint(p.Code), fmt.Sprint(p.Comments), fmt.Sprintf("%.0f %%", 100*p.CommentShare()),
			fmt.Sprint(n.Functions), fmt.Sprintf("%.0f %%", 100*share(n.OneWord, n.Functions)), fmt.Sprintf("%.1f", n.Letters))
	}
}

func (f *Figures) writeWay(t *table) {
	t.title("The way of a STOPPED task's event to its replacement's StartTask")
	t.row("hop", "declarations", "lines", "files", "from", "to")
	for _, h := range f.Way.Hops {
		t.row(h.Name, fmt.Sprint(h.Declarations), fmt.Sprint(h.Lines), fmt.Sprint(h.Files), h.Entry, h.Sink)
	}
	t.items("Declarations on the way (lines)", f.Way.Read)
}

// table writes aligned columns; the first error that writing met is kept.
type table struct {
	tabs *tabwriter.Writer
	err  error
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		if i > 0 {
			c = "\t" + c
		}
		if _, err := io.WriteString(t.tabs, c); err != nil && t.err == nil {
			t.err = err
		}
	}
	if _, err := io.WriteString(t.tabs, "\n"); err != nil && t.err == nil {
		t.err = err
	}
}

// title begins a new table, whose columns are as wide as it needs.
func (t *table) title(text string) {
	t.row("")
	if err := t.tabs.Flush(); err != nil && t.err == nil {
		t.err = err
	}
	t.row(text)
	if err := t.tabs.Flush(); err != nil && t.err == nil {
		t.err = err
	}
}

func (t *table) items(title string, items []Item) {
	if len(items) == 0 {
		return
	}
	t.title(fmt.Sprintf("%s: %d", title, len(items)))
	for _, i := range items {
		at := i.File
		if i.Line > 0 && at != "" {
			at = fmt.Sprintf("%s:%d", at, i.Line)
		}
		t.row(fmt.Sprint(i.N), i.Name, at)
	}
}

func (t *table) close() error {
	if err := t.tabs.Flush(); err != nil && t.err == nil {
		t.err = err
	}
	return t.err
}
