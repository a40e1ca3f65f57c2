package answer

import (
	"encoding/json"
	"slices"
)

// Definition completes a task definition as RegisterTaskDefinition and DescribeTaskDefinition
// return it (AWS CLI examples of both).
func Definition(o Object) {
	o.setEmptyLists("containerDefinitions", "placementConstraints", "requiresAttributes", "volumes")
	mode := o.Text("networkMode")
	for _, c := range o.Objects("containerDefinitions") {
		completeContainer(c, mode)
	}
	for _, v := range o.Objects("volumes") {
		completeVolume(v)
	}
	if o["compatibilities"] == nil {
		o["compatibilities"] = compatibilities(o, mode)
	}
}

// completeContainer sets what AWS sends of every container.
func completeContainer(c Object, mode string) {
	c.setDefault("cpu", 0)
	c.setDefault("essential", true)
	c.setEmptyLists("environment", "mountPoints", "portMappings", "systemControls", "volumesFrom")
	for _, m := range c.Objects("portMappings") {
		m.setDefault("protocol", "tcp")
		// A range of ports has no single host port.
		if m["containerPort"] == nil {
			continue
		}
		m.setDefault("hostPort", json.Number("0"))
		// There the container's port is the host's.
		if (mode == "awsvpc" || mode == "host") && m["hostPort"] == json.Number("0") {
			m["hostPort"] = m["containerPort"]
		}
	}
}

// volumeKinds are the members that say what a volume is. One without any is an empty host volume.
var volumeKinds = []string{
	"host", "dockerVolumeConfiguration", "efsVolumeConfiguration", "fsxWindowsFileServerVolumeConfiguration",
	"s3filesVolumeConfiguration", "configuredAtLaunch",
}

// completeVolume makes a volume without any kind a host volume. A file system is mounted from its
// root unless the definition names a directory.
func completeVolume(v Object) {
	if efs := v.Object("efsVolumeConfiguration"); efs != nil {
		efs.setDefault("rootDirectory", "/")
	}
	if !slices.ContainsFunc(volumeKinds, func(kind string) bool { return v[kind] != nil }) {
		v["host"] = map[string]any{}
	}
}

// compatibilities returns the launch types that a definition is valid for, where ECS did not say:
// EC2 always, EXTERNAL outside awsvpc mode, and those that the definition itself requires.
func compatibilities(o Object, mode string) []any {
	out := []any{"EC2"}
	if mode != "awsvpc" {
		out = []any{"EXTERNAL", "EC2"}
	}
	required, _ := o["requiresCompatibilities"].([]any)
	for _, r := range required {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}
