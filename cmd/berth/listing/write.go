package listing

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Formats are the ways in which [Write] prints a list.
var Formats = []string{"table", "wide", "json", "yaml", "name"}

// Tone is how a cell is emphasized where colours are used. The text always says the same.
type Tone int

// The tones: no emphasis, something that works, that changes, that is wrong.
const (
	Plain Tone = iota
	Good
	Changing
	Wrong
)

// column is a column of a table. Wide columns are shown only in the format wide.
type column[T any] struct {
	title string
	wide  bool
	text  func(item T, wide bool) string
	tone  func(item T) Tone // nil for Plain
}

// Table is a list with its columns.
type Table[T any] struct {
	items   []T
	columns []column[T]
	name    func(T) string
}

// Options say how to print a list. Colours are used only if Color is set.
type Options struct {
	Format string
	Color  bool
	Now    time.Time
}

// Write prints a list in a format.
func Write[T any](w io.Writer, t Table[T], o Options) error {
	switch o.Format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(t.items)
	case "yaml":
		return writeYAML(w, t.items)
	case "name":
		for _, item := range t.items {
			if _, err := fmt.Fprintln(w, t.name(item)); err != nil {
				return err
			}
		}
		return nil
	}
	return t.writeColumns(w, o)
}

// writeYAML writes what JSON has, with its names in its order, as YAML in blocks.
func writeYAML(w io.Writer, items any) error {
	data, err := json.Marshal(items)
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return err
	}
	var plain func(n *yaml.Node)
	plain = func(n *yaml.Node) {
		// JSON's quotes stay where another reader of YAML might see something else than text.
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || isPlainText(n.Value) {
			n.Style = 0
		}
		for _, c := range n.Content {
			plain(c)
		}
	}
	plain(&document)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&document); err != nil {
		return err
	}
	return e.Close()
}

// isPlainText reports whether every reader of YAML takes a text without quotes as that text.
func isPlainText(text string) bool {
	words := []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
	letter := func(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' }
	rest := strings.TrimFunc(text, func(r rune) bool { return letter(r) || r >= '0' && r <= '9' || r == '-' })
	return text != "" && letter(rune(text[0])) && rest == "" && !slices.Contains(words, strings.ToLower(text))
}

// colors are the terminal's codes by tone. Blue and orange differ for people who do not tell red
// from green.
var colors = map[Tone]string{Good: "\x1b[34m", Changing: "\x1b[33m", Wrong: "\x1b[1;31m"}

const endColor = "\x1b[0m"

// writeColumns writes aligned columns with a line of titles. Control characters in a cell are
// quoted, so that no name can move the cursor.
func (t Table[T]) writeColumns(w io.Writer, o Options) error {
	wide := o.Format == "wide"
	columns := slices.DeleteFunc(slices.Clone(t.columns), func(c column[T]) bool { return c.wide && !wide })
	lines := make([][]string, 0, len(t.items)+1)
	var titles []string
	for _, c := range columns {
		titles = append(titles, c.title)
	}
	lines = append(lines, titles)
	for _, item := range t.items {
		var cells []string
		for _, c := range columns {
			cells = append(cells, printableCell(c.text(item, wide)))
		}
		lines = append(lines, cells)
	}
	widths := make([]int, len(columns))
	for _, cells := range lines {
		for k, cell := range cells {
			widths[k] = max(widths[k], utf8.RuneCountInString(cell))
		}
	}
	for n, cells := range lines {
		var b strings.Builder
		for k, cell := range cells {
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(cell)+2)
			if o.Color && n > 0 && columns[k].tone != nil {
				if color := colors[columns[k].tone(t.items[n-1])]; color != "" {
					cell = color + cell + endColor
				}
			}
			b.WriteString(cell)
			if k < len(cells)-1 {
				b.WriteString(pad)
			}
		}
		if _, err := fmt.Fprintln(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

func printableCell(text string) string {
	if text == "" {
		return "-"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
		return strconv.Quote(text)
	}
	return text
}

// Age returns how long ago something was, in its largest unit or two: 45s, 3m, 2h10m, 4d.
func Age(at, now time.Time) string {
	d := now.Sub(at)
	switch {
	case at.IsZero():
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d/time.Second)))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d/time.Hour), int(d/time.Minute)%60)
	}
	return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
}
