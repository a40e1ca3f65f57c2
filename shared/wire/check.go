package wire

import (
	"strings"

	"berth/shared/cluster"
)

// member is one input member that Berth does not serve, and whether the caller uses it.
type unserved struct {
	name string
	used bool
}

// refuse names the first member in use that is not served: nothing is ignored silently.
func refuse(members ...unserved) error {
	for _, m := range members {
		if m.used {
			return unsupported(m.name)
		}
	}
	return nil
}

// required is the error of a member that must be there.
func required(member string, ref *string) error {
	if value(ref) == "" {
		return invalid("%s must not be empty.", member)
	}
	return nil
}

// count checks how many items a list has.
func count(member string, n, most int) error {
	switch {
	case n == 0:
		return invalid("%s cannot be empty.", member)
	case n > most:
		return invalid("%s cannot have more than %d items.", member, most)
	}
	return nil
}

// oneOf checks a member that has a few values, or none.
func oneOf[T ~string](member string, got T, known []T) error {
	if got == "" {
		return nil
	}
	var all []string
	for _, k := range known {
		if got == k {
			return nil
		}
		all = append(all, string(k))
	}
	return invalid("%s is %.60q, expected one of %s.", member, string(got), strings.Join(all, ", "))
}

func unsupported(field string) error {
	return cluster.Errorf(cluster.CodeUnsupported, "%s is not supported.", field)
}

func invalid(format string, args ...any) error {
	return cluster.Errorf(cluster.CodeInvalidParameter, format, args...)
}

// value is what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
