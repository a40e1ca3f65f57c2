package ecsapi

import "berth/shared/wire/input"

// An unserved is an input member that Berth does not serve, and whether the caller uses it.
type unserved struct {
	name string
	used bool
}

// refuseUnserved refuses the first member in use, by name, as an UnsupportedFeatureException.
// `TestUnserved` of package wire shows that no member is ignored.
func refuseUnserved(members ...unserved) error {
	for _, m := range members {
		if m.used {
			return input.Unsupported(m.name)
		}
	}
	return nil
}
