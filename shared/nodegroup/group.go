package nodegroup

import "berth/shared/cluster"

// Group is the Auto Scaling group as it is now, and what else an update must know about its
// surroundings.
type Group struct {
	Name string
	cluster.Sizes
	// Zones are the availability zones that the group launches in, with or without nodes.
	Zones []string
	// Template is the launch template version that the group launches from, as ID:VERSION.
	Template string
	// PreparedTemplate is the version of its launch template for the update: the user's own, or the
	// one that has the description [TemplateDescription]; empty if there is none.
	PreparedTemplate string
	// Failures are the launches that failed since the update was created.
	Failures []LaunchFailure
	// IsGrowing reports that managed scaling is raising the desired capacity, or would if it were
	// allowed to (N5).
	IsGrowing bool
	// ScaleOuts counts how often managed scaling has raised the desired capacity.
	ScaleOuts int
	// Unhealthy describes what is unhealthy in the cluster, by its name. It is checked after each
	// upgrade domain (N7).
	Unhealthy map[string]string
	// WhyNoRoom says why the rest of the cluster cannot take the load of some nodes, given by
	// container instance id. It returns the empty string if it can (N7). Without Room it always
	// can.
	WhyNoRoom func(leaving []string) string
}

// LaunchFailure is an instance that the Auto Scaling group could not launch.
type LaunchFailure struct {
	Zone    string
	Code    string // of EC2, such as InsufficientInstanceCapacity; empty if only the message is known
	Message string
}
