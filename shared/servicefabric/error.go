package servicefabric

import "fmt"

// Error is a mistake in a description.
type Error struct {
	Line   int
	Reason string
}

// Error returns the line and the reason.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

func errorAt(line int, format string, args ...any) error {
	return &Error{Line: line, Reason: fmt.Sprintf(format, args...)}
}
