package ecs

import (
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// volumeCapability is the attribute of agents that attach EBS volumes.
const volumeCapability = "ecs.capability.storage.ebs-task-volume-attach"

// checkVolumes refuses the volumes of a StartTask that the definition does not leave to the start,
// and a start that leaves one of them out.
func checkVolumes(d *definition, given []types.TaskVolumeConfiguration) error {
	atLaunch := 0
	for _, v := range d.Def.Volumes {
		if value(v.ConfiguredAtLaunch) {
			atLaunch++
		}
	}
	for n, v := range given {
		known := func(o types.Volume) bool { return value(o.ConfiguredAtLaunch) && value(o.Name) == value(v.Name) }
		twice := func(o types.TaskVolumeConfiguration) bool { return value(o.Name) == value(v.Name) }
		e := v.ManagedEBSVolume
		switch {
		case !slices.ContainsFunc(d.Def.Volumes, known) || slices.ContainsFunc(given[:n], twice):
			return invalidParameter("Volume configuration provided but no matching configuredAtLaunch volume " +
				"found in task definition.")
		case e == nil || value(e.RoleArn) == "":
			return invalidParameter("The volume configuration of %s has no roleArn.", value(v.Name))
		case e.SizeInGiB == nil && e.SnapshotId == nil:
			return invalidParameter("The volume configuration of %s has neither sizeInGiB nor snapshotId.",
				value(v.Name))
		}
	}
	if len(given) != atLaunch {
		return invalidParameter("The task definition has volumes with configuredAtLaunch that are not configured.")
	}
	return nil
}

// volumeAttachment describes a task's EBS volume. It is attached until the task has stopped.
func (t *task) volumeAttachment(v types.TaskVolumeConfiguration) types.Attachment {
	e, status := v.ManagedEBSVolume, "ATTACHED"
	if !t.Ended.IsZero() {
		status = "DELETED"
	}
	deleted := e.TerminationPolicy == nil || e.TerminationPolicy.DeleteOnTermination == nil ||
		*e.TerminationPolicy.DeleteOnTermination
	details := []types.KeyValuePair{}
	detail := func(name, v string) {
		if v != "" {
			details = append(details, types.KeyValuePair{Name: &name, Value: &v})
		}
	}
	number := func(n *int32) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(int(*n))
	}
	detail("roleArn", value(e.RoleArn))
	detail("volumeName", value(v.Name))
	detail("volumeId", "vol-"+t.ID[:17])
	detail("deleteOnTermination", strconv.FormatBool(deleted))
	detail("sizeInGiB", number(e.SizeInGiB))
	detail("snapshotId", value(e.SnapshotId))
	detail("volumeType", value(e.VolumeType))
	detail("iops", number(e.Iops))
	detail("throughput", number(e.Throughput))
	detail("filesystemType", string(e.FilesystemType))
	return types.Attachment{Id: new("ebs-" + t.attachmentID()), Type: new("AmazonElasticBlockStorage"),
		Status: &status, Details: details}
}
