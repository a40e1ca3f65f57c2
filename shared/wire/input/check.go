package input

import (
	"errors"
	"unicode/utf8"

	"berth/shared/choice"
	"berth/shared/cluster"
)

// CheckRequired refuses a member that is missing or empty.
func CheckRequired(member string, ref *string) error {
	if Value(ref) == "" {
		return Invalid("%s must not be empty.", member)
	}
	return nil
}

// CheckCount refuses an empty list, and one of more than most items.
func CheckCount(member string, n, most int) error {
	switch {
	case n == 0:
		return Invalid("%s cannot be empty.", member)
	case n > most:
		return Invalid("%s cannot have more than %d items.", member, most)
	}
	return nil
}

// CheckLength refuses a text of more than most characters.
func CheckLength(member, text string, most int) error {
	if utf8.RuneCountInString(text) > most {
		return Invalid("%s must have at most %d characters.", member, most)
	}
	return nil
}

// An Enum is one of the SDK's types of text with a few known values.
type Enum[T any] interface {
	~string
	Values() []T
}

// CheckOneOf refuses a value that the member's type does not have. A member that is not given
// passes.
func CheckOneOf[T Enum[T]](member string, got T) error {
	if got == "" {
		return nil
	}
	var all []string
	for _, k := range got.Values() {
		if got == k {
			return nil
		}
		all = append(all, string(k))
	}
	return UnknownValue("%s is %.60q, %s", member, string(got), choice.Expected(string(got), all))
}

// An unknownValue is the error for a value that a member cannot have in any request. ECS finds it
// before it looks at anything else, even at the cluster.
type unknownValue struct{ error }

// Unwrap returns the InvalidParameterException.
func (u unknownValue) Unwrap() error { return u.error }

// UnknownValue returns an InvalidParameterException for which [IsUnknownValue] is true.
func UnknownValue(format string, args ...any) error { return unknownValue{Invalid(format, args...)} }

// IsUnknownValue reports whether an operation refused a value that a member cannot have in any
// request.
func IsUnknownValue(err error) bool { return errors.As(err, new(unknownValue)) }

// Invalid returns an InvalidParameterException.
func Invalid(format string, args ...any) error {
	return cluster.Errorf(cluster.CodeInvalidParameter, format, args...)
}

// Value returns what p points to, or the zero value for nil.
func Value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
