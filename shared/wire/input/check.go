package input

import (
	"strings"

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
	return Invalid("%s is %.60q, expected one of %s.", member, string(got), strings.Join(all, ", "))
}

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
