package constraint

import "time"

// instance is a Subject made by hand.
type instance struct {
	attributes, properties map[string]string
	disconnected           bool
	version, ec2           string
	registered             time.Time
	groups                 []string // one entry per task
}

func (i *instance) Attribute(name string) (string, bool) {
	v, ok := i.attributes[name]
	return v, ok
}

func (i *instance) Property(name string) (string, bool) {
	v, ok := i.properties[name]
	return v, ok
}

func (i *instance) AgentConnected() bool    { return !i.disconnected }
func (i *instance) AgentVersion() string    { return i.version }
func (i *instance) EC2InstanceID() string   { return i.ec2 }
func (i *instance) RegisteredAt() time.Time { return i.registered }
func (i *instance) RunningTasks() int       { return len(i.groups) }

func (i *instance) Groups(yield func(string) bool) {
	for _, g := range i.groups {
		if !yield(g) {
			return
		}
	}
}

// with returns an instance with attributes, given as name, value, name, value, ...
func with(pairs ...string) *instance { return &instance{attributes: pairUp(pairs)} }

// node properties likewise.
func properties(pairs ...string) *instance { return &instance{properties: pairUp(pairs)} }

func pairUp(pairs []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}
