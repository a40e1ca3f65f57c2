package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The limits beyond which a figure lists what it found. tests/house says which of them fail a build.
const (
	MaxMethods       = 25
	MaxFields        = 20
	MaxFolderFiles   = 30
	MaxFunctionLines = 80
	MaxFileLines     = 500
	MaxTestLines     = 800
	MaxColumns       = 120
)

// Measure is one figure that is taken of many things: what has more than the limit, and the most that any has.
type Measure struct {
	Limit int    `json:"limit"`
	Max   Item   `json:"max"`
	Over  []Item `json:"over"` // the largest first
}

// Figures are all that is measured.
type Figures struct {
	Total    Lines   `json:"total"`
	Areas    []Lines `json:"areas"`
	Packages []Lines `json:"packages"`

	Methods       Measure `json:"methods"`
	Fields        Measure `json:"fields"`
	Contexts      []Item  `json:"contexts"`
	PromotedTwice []Item  `json:"promotedTwice"`

	Folders       Measure `json:"folders"`
	FunctionLines Measure `json:"functionLines"`
	FileLines     Measure `json:"fileLines"`
	TestLines     Measure `json:"testLines"`
	WideCode      []Item  `json:"wideCode"`
	WideComments  []Item  `json:"wideComments"`

	Names Names `json:"names"`

	FolderPairs []Pair       `json:"folderPairs"`
	InnerCalls  []InnerCalls `json:"innerCalls"`

	// Way is nil where it could not be measured.
	Way *Way `json:"way,omitempty"`
}

// Measure takes all figures. When the way of the event cannot be followed the others are there and the error says why.
func (c *Code) Measure(way []Hop) (*Figures, error) {
	f := &Figures{Names: c.names(), InnerCalls: c.innerCalls(), FolderPairs: c.folderPairs()}
	c.countLines(f)
	f.Methods = measure(MaxMethods, c.methods())
	structs, contexts := c.fields()
	f.Fields, f.Contexts = measure(MaxFields, structs), sorted(contexts)
	f.PromotedTwice = sorted(c.promotedTwice())
	f.Folders = measure(MaxFolderFiles, c.folders())
	f.FunctionLines = measure(MaxFunctionLines, c.functions())
	f.FileLines = measure(MaxFileLines, fileLengths(c.files, false))
	f.TestLines = measure(MaxTestLines, fileLengths(slices.Concat(c.files, c.others), true))
	for _, file := range c.measured() {
		f.WideCode = append(f.WideCode, wideLines(file, codeLine, MaxColumns)...)
		f.WideComments = append(f.WideComments, wideLines(file, commentLine, MaxColumns)...)
	}
	var err error
	f.Way, err = c.graph().way(way)
	if err != nil {
		err = fmt.Errorf("following the event: %w", err)
	}
	return f, err
}

func (c *Code) countLines(f *Figures) {
	areas, folders := map[string]Lines{}, map[string]Lines{}
	for _, file := range c.measured() {
		l := CountLines(file.source)
		f.Total = f.Total.plus(l)
		areas[file.area()] = areas[file.area()].plus(l)
		folders[file.folder()] = folders[file.folder()].plus(l)
	}
	f.Areas, f.Packages = byName(areas), byName(folders)
}

func byName(by map[string]Lines) []Lines {
	var out []Lines
	for name, l := range by {
		l.Name = name
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Lines) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func measure(limit int, items []Item) Measure {
	m := Measure{Limit: limit}
	for n, i := range sorted(items) {
		if n == 0 {
			m.Max = i
		}
		if i.N > limit {
			m.Over = append(m.Over, i)
		}
	}
	return m
}

// sorted has the largest first.
func sorted(items []Item) []Item {
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name), strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return items
}
