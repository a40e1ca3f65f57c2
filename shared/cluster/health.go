package cluster

// Health is the health of a task, from its container health checks or a load balancer.
type Health uint8

// The health statuses of the ECS API.
const (
	UnknownHealth Health = iota
	Healthy
	Unhealthy
)

// ParseHealth parses HEALTHY or UNHEALTHY. Everything else is unknown.
func ParseHealth(s string) Health {
	switch s {
	case "HEALTHY":
		return Healthy
	case "UNHEALTHY":
		return Unhealthy
	}
	return UnknownHealth
}

// String returns the status in ECS's words, empty for unknown.
func (h Health) String() string { return [...]string{"", "HEALTHY", "UNHEALTHY"}[h] }

// MarshalText returns the status in ECS's words.
func (h Health) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses what [ParseHealth] does.
func (h *Health) UnmarshalText(text []byte) error {
	*h = ParseHealth(string(text))
	return nil
}
