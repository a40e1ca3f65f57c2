package cluster

// TaskDefinition is the part of an ECS task definition that placement needs, cached by family and
// revision. ECS has the rest.
type TaskDefinition struct {
	Head
	Family   string    `json:"f"`
	Revision int       `json:"r"`
	Needs    Resources `json:"n"`
	Ports    []Port    `json:"p,omitempty"`
	// Attributes are what an instance must have, as NAME or NAME=VALUE (requiresAttributes).
	Attributes []string `json:"ra,omitempty"`
	// Constraints are the memberOf constraints of the definition itself.
	Constraints []PlacementConstraint `json:"pc,omitempty"`
	// Roles are the task role and the execution role, which the caller must be allowed to pass.
	Roles []string `json:"ro,omitempty"`
	// Containers are the container names, in order. Overrides name them.
	Containers []string `json:"cn,omitempty"`
	// Sizes are the sizes of the containers, in the same order. There are none if only the task's
	// own size counts.
	Sizes []ContainerSize `json:"cs,omitempty"`
	// OwnCPU and OwnMemory are set if the task has a size of its own.
	OwnCPU    bool `json:"oc,omitempty"`
	OwnMemory bool `json:"om,omitempty"`
	// HealthChecked reports whether an essential container has a health check.
	HealthChecked bool `json:"hc,omitempty"`
	// Tags are the tags that its tasks can inherit (propagateTags).
	Tags map[string]string `json:"tg,omitempty"`
	// Inactive is set if the revision was deregistered. Nothing new may use it.
	Inactive bool `json:"ia,omitempty"`
}

// Name returns family:revision, which ECS accepts in place of the ARN.
func (d *TaskDefinition) Name() string { return TaskDefinitionName(d.Family, d.Revision) }
