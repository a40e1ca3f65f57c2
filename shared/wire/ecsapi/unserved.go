package ecsapi

import "berth/shared/wire/input"

// unserved is one input member that Berth does not serve, and whether the caller uses it.
type unserved struct {
	name string
	used bool
}

// refuseUnserved names the first member in use that is not served: nothing is ignored silently.
func refuseUnserved(members ...unserved) error {
	for _, m := range members {
		if m.used {
			return input.Unsupported(m.name)
		}
	}
	return nil
}
