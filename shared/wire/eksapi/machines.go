package eksapi

import (
	"regexp"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/input"
)

// Bounds of the machines of a node group (EKS API reference, CreateNodegroup; EBS).
const (
	maxInstanceTypes = 20
	maxDiskSize      = 16384 // GiB
)

var (
	instanceTypes = regexp.MustCompile(`^[a-z0-9-]{1,32}\.[a-z0-9-]{1,32}$`)
	// A role that an instance profile can have, with or without a path.
	roleARNs = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/([!-~]{0,510}/)?[\w+=,.@-]{1,64}$`)
)

// parseMachines checks what the nodes are to be made of: an Auto Scaling group of the user's, which
// a tag names, or machines for which Berth makes one. Which AMI types there are, and how large
// their disks must be, is checked by the scheduler.
func (in *createInput) parseMachines(spec *operation.CreateNodeGroup) error {
	if group, given := in.Tags[cluster.AutoScalingTag]; given {
		if !groupNames.MatchString(group) {
			return input.Invalid("The tag %s must name the Auto Scaling group whose instances are the node group's.",
				cluster.AutoScalingTag)
		}
		return in.checkGiven()
	}
	switch {
	case in.LaunchTemplate != nil && in.DiskSize != nil:
		return input.Invalid("Disk size must be specified within the launch template.")
	case in.LaunchTemplate == nil && in.AmiType == "CUSTOM":
		return input.Invalid("amiType CUSTOM needs a launchTemplate that names the image.")
	case !roleARNs.MatchString(in.NodeRole):
		return input.Invalid("nodeRole is %.100q, but must be the ARN of a role, unless the tag %s names an Auto "+
			"Scaling group.", in.NodeRole, cluster.AutoScalingTag)
	case len(in.InstanceTypes) > maxInstanceTypes:
		return input.Invalid("There are %d instanceTypes, but at most %d are possible.", len(in.InstanceTypes),
			maxInstanceTypes)
	}
	seen := map[string]bool{}
	for _, t := range in.InstanceTypes {
		if !instanceTypes.MatchString(t) || seen[t] {
			return input.Invalid("%.100q is no instance type, or is there twice.", t)
		}
		seen[t] = true
	}
	spec.AMIType = in.AmiType
	spec.Machines = &cluster.Machines{InstanceTypes: in.InstanceTypes,
		CapacityType: cluster.CapacityType(in.CapacityType)}
	if d := in.DiskSize; d != nil {
		if *d < 1 || *d > maxDiskSize {
			return input.Invalid("diskSize is %d, but must be between 1 and %d.", *d, maxDiskSize)
		}
		spec.Machines.DiskSize = *d
	}
	return nil
}
