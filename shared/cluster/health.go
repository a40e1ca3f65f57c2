package cluster

// Health is what the container health checks of a task say, in ECS's words; 0 where they say
// nothing (UNKNOWN).
type Health uint8

// The health statuses of the ECS API.
const (
	UnknownHealth Health = iota
	Healthy
	Unhealthy
)

// ParseHealth reads HEALTHY or UNHEALTHY; everything else is unknown.
func ParseHealth(s string) Health {
	switch s {
	case "HEALTHY":
		return Healthy
	case "UNHEALTHY":
		return Unhealthy
	}
	return UnknownHealth
}

// String is the status as ECS has it; empty for unknown.
func (h Health) String() string { return [...]string{"", "HEALTHY", "UNHEALTHY"}[h] }

// MarshalText writes the status as ECS has it.
func (h Health) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what [ParseHealth] does.
func (h *Health) UnmarshalText(text []byte) error {
	*h = ParseHealth(string(text))
	return nil
}
