package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ValueError is the error for a bad value. Line counts from 1 and includes the header.
type ValueError struct {
	Line   int
	Column string
	Value  string
	Want   string // what was expected
}

// Error names the line, the column, the value and what was expected.
func (e *ValueError) Error() string {
	return fmt.Sprintf("line %d, column %s: %.60q, expected %s", e.Line, e.Column, e.Value, e.Want)
}

// table reads CSV rows by column name. It ends at the first error: nextRow returns false, and err
// has the error.
type table struct {
	csv     *csv.Reader
	columns map[string]int
	width   int
	row     []string
	line    int
	rows    int
	names   map[string]int // line of each name
	err     error
}

// newTableReader reads the header, which must have the required columns.
func newTableReader(r io.Reader, required ...string) (*table, error) {
	t := &table{csv: csv.NewReader(&bounded{r: r, left: maxBytes}), columns: map[string]int{}, names: map[string]int{}}
	t.csv.FieldsPerRecord = -1 // nextRow checks it, with a better message
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("no header: expected a line that names the columns %s", strings.Join(required, ", "))
	}
	if err != nil {
		return nil, err
	}
	t.width = len(header)
	header[0] = strings.TrimPrefix(header[0], "\ufeff") // the byte order mark of spreadsheets
	for i, name := range header {
		name = strings.TrimSpace(name)
		if _, ok := t.columns[name]; ok {
			return nil, &ValueError{Line: 1, Column: strconv.Itoa(i + 1), Value: name, Want: "each column once"}
		}
		t.columns[name] = i
	}
	for _, name := range required {
		if _, ok := t.columns[name]; !ok {
			return nil, fmt.Errorf("line 1: no column %s; expected %s", name, strings.Join(required, ", "))
		}
	}
	t.csv.ReuseRecord = true
	return t, nil
}

// nextRow reads the next row, and reports whether there is one.
func (t *table) nextRow() bool {
	if t.err != nil {
		return false
	}
	row, err := t.csv.Read()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			t.err = err
		}
		return false
	}
	t.row = row
	t.line, _ = t.csv.FieldPos(0)
	if len(row) != t.width {
		t.err = fmt.Errorf("line %d: %d values, expected %d as in the header", t.line, len(row), t.width)
		return false
	}
	if t.rows++; t.rows > MaxRows {
		t.err = fmt.Errorf("line %d: more than %d rows", t.line, MaxRows)
		return false
	}
	return true
}

// columnText returns the row's value in the column, or nothing if there is no such column.
func (t *table) columnText(column string) string {
	i, ok := t.columns[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(t.row[i])
}

// uniqueName returns a value that no other row may have.
func (t *table) uniqueName(column string) string {
	s := t.columnText(column)
	if s == "" {
		t.rejectValue(column, "a name")
	} else if line, ok := t.names[s]; ok {
		t.rejectValue(column, fmt.Sprintf("a name of its own: line %d has it", line))
	}
	t.names[s] = t.line
	return s
}

// columnNumber returns a whole number, which must be from 0 to most.
func (t *table) columnNumber(column string, most int64) int64 {
	n, err := strconv.ParseInt(t.columnText(column), 10, 64)
	if err != nil || n < 0 || n > most {
		t.rejectValue(column, fmt.Sprintf("a whole number from 0 to %d", most))
		return 0
	}
	return n
}

// columnSeconds returns a time since the start of the trace, or nil if there is none.
func (t *table) columnSeconds(column string) *time.Duration {
	if t.columnText(column) == "" {
		return nil
	}
	d := time.Duration(t.columnNumber(column, maxSeconds)) * time.Second
	return &d
}

// rejectValue ends the table with an error about the row's value, unless an earlier error has.
func (t *table) rejectValue(column, want string) {
	if t.err == nil {
		t.err = &ValueError{Line: t.line, Column: column, Value: t.columnText(column), Want: want}
	}
}

// bounded is a reader that fails beyond the largest size of a trace.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("more than %d MiB", maxBytes>>20)
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}
