package cluster

import (
	"reflect"
	"slices"
	"strconv"
)

// Network says where a task in awsvpc mode gets its network interface.
type Network struct {
	Subnets        []string `json:"s"`
	SecurityGroups []string `json:"g,omitempty"`
}

// Equal reports whether two networks are the same. Nil is no network.
func (n *Network) Equal(o *Network) bool {
	if n == nil || o == nil {
		return n == o
	}
	return slices.Equal(n.Subnets, o.Subnets) && slices.Equal(n.SecurityGroups, o.SecurityGroups)
}

// AttributeENIs says how many task network interfaces an instance can have if it registered no
// resource ENI. ECS does not report the number.
const AttributeENIs = "berth.task-enis"

// SetENIs sets the number of network interfaces from the attribute, if the instance registered
// none.
func (i *Instance) SetENIs() {
	n, err := strconv.ParseUint(i.Attributes[AttributeENIs], 10, 16)
	if err == nil && i.Registered.ENIs == nil {
		i.Registered.ENIs = new(int(n))
	}
}

// Volume is an EBS volume that ECS creates for a task when it starts. The task definition has a
// volume of the same name with configuredAtLaunch.
type Volume struct {
	Name       string `json:"n"`
	Role       string `json:"ro"` // the role by which ECS creates and attaches it
	Type       string `json:"ty,omitempty"`
	GiB        int    `json:"gb,omitempty"`
	Snapshot   string `json:"sn,omitempty"`
	InitRate   int    `json:"ir,omitempty"` // MiB/s
	IOPS       int    `json:"io,omitempty"`
	Throughput int    `json:"tp,omitempty"` // MiB/s
	FileSystem string `json:"fs,omitempty"`
	Encrypted  *bool  `json:"en,omitempty"`
	KMSKey     string `json:"kk,omitempty"`
	// Kept is set if the volume outlives the task (deleteOnTermination false).
	Kept bool `json:"kp,omitempty"`
	// Tags are nil if the caller gave no tagSpecifications.
	Tags *VolumeTags `json:"tg,omitempty"`
}

// VolumeTags are the tags of a volume: those of the task definition or the service, if Propagate
// says so, and its own.
type VolumeTags struct {
	Propagate string            `json:"pt,omitempty"` // as propagateTags of the ECS API
	Own       map[string]string `json:"ow,omitempty"`
}

// Merge returns the tags that the volume gets: its own, and those of the service or the task definition
// if Propagate says so.
func (t *VolumeTags) Merge(ofService, ofDefinition map[string]string) map[string]string {
	switch t.Propagate {
	case "SERVICE":
		return MergeTags(UserTags(ofService), t.Own)
	case "TASK_DEFINITION":
		return MergeTags(ofDefinition, t.Own)
	}
	return t.Own
}

// EqualVolumes reports whether tasks get the same volumes by both lists.
func EqualVolumes(a, b []Volume) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

// volumesFor returns the volumes as ECS is to create them for a task of the service. ECS's
// StartTask knows no service, so the service's tags are written out.
func (s *Service) volumesFor(r *Revision) []Volume {
	var out []Volume
	for _, v := range r.Volumes {
		if v.Tags != nil && v.Tags.Propagate == "SERVICE" {
			v.Tags = &VolumeTags{Propagate: "NONE", Own: v.Tags.Merge(s.Tags, nil)}
		}
		out = append(out, v)
	}
	return out
}

// TaskOptions are settings of a standalone task that ECS itself acts on.
type TaskOptions struct {
	ExecuteCommand bool     `json:"ec,omitempty"` // enableExecuteCommand
	Volumes        []Volume `json:"vo,omitempty"`
}
