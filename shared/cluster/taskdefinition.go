package cluster

// TaskDefinition is the part of an ECS task definition that placement needs, cached by family and
// revision. ECS keeps the whole of it.
type TaskDefinition struct {
	Head
	Family   string    `json:"f"`
	Revision int       `json:"r"`
	Needs    Resources `json:"n"`
	Ports    []Port    `json:"p,omitempty"`
	// Attributes are the names (or name=value) that an instance must have (requiresAttributes).
	Attributes []string `json:"ra,omitempty"`
	// Constraints are the memberOf constraints of the definition itself.
	Constraints []PlacementConstraint `json:"pc,omitempty"`
	// Roles are the task role and the execution role, which the caller must be allowed to pass.
	Roles []string `json:"ro,omitempty"`
	// Containers are the container names, the first first: overrides name them.
	Containers []string `json:"cn,omitempty"`
	// Sizes are what the containers ask for, in the same order; none where the task's own size is
	// all that counts.
	Sizes []ContainerSize `json:"cs,omitempty"`
	// OwnCPU and OwnMemory report that the task has a size of its own, which its containers do not
	// change.
	OwnCPU    bool `json:"oc,omitempty"`
	OwnMemory bool `json:"om,omitempty"`
	// HealthChecked reports whether an essential container has a health check.
	HealthChecked bool `json:"hc,omitempty"`
	// Inactive reports that the revision was deregistered: nothing new may use it.
	Inactive bool `json:"ia,omitempty"`
}

// Name is family:revision, the form that ECS accepts wherever it accepts the ARN.
func (d *TaskDefinition) Name() string { return TaskDefinitionName(d.Family, d.Revision) }
