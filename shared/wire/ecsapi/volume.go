package ecsapi

import (
	"context"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
)

// Bounds of volumes that ECS creates for a task (ECS developer guide, EBS volumes).
const (
	// maxVolumes is how many volumes a task definition can leave to the start.
	maxVolumes = 1
	// maxVolumeGiB and maxVolumeIOPS are those of the largest type.
	maxVolumeGiB, maxVolumeIOPS = 16_384, 256_000
	// maxThroughput and maxInitRate are in MiB/s.
	maxThroughput, maxInitRate = 1000, 300
)

// volumeTypes are the types of EBS volumes.
var volumeTypes = []string{"gp2", "gp3", "io1", "io2", "sc1", "st1", "standard"}

// volumeRoles matches the ARN of a role.
var volumeRoles = regexp.MustCompile(`^arn:[a-z-]+:iam::[0-9]{12}:role/[\x21-\x7e]{1,512}$`)

// parseServiceVolumes reads the volumeConfigurations of a service. Its tasks' volumes are deleted
// with the tasks.
func parseServiceVolumes(in []types.ServiceVolumeConfiguration) ([]cluster.Volume, error) {
	return parseVolumes(shape.ConvertEach(in, func(v types.ServiceVolumeConfiguration) types.TaskVolumeConfiguration {
		e := v.ManagedEBSVolume
		if e == nil {
			return types.TaskVolumeConfiguration{Name: v.Name}
		}
		return types.TaskVolumeConfiguration{Name: v.Name, ManagedEBSVolume: &types.TaskManagedEBSVolumeConfiguration{
			RoleArn: e.RoleArn, Encrypted: e.Encrypted, FilesystemType: e.FilesystemType, Iops: e.Iops,
			KmsKeyId: e.KmsKeyId, SizeInGiB: e.SizeInGiB, SnapshotId: e.SnapshotId,
			TagSpecifications: e.TagSpecifications, Throughput: e.Throughput,
			VolumeInitializationRate: e.VolumeInitializationRate, VolumeType: e.VolumeType,
		}}
	}))
}

// parseTaskVolumes reads the volumeConfigurations of RunTask and StartTask. Standalone tasks have
// no service to take tags from.
func parseTaskVolumes(in []types.TaskVolumeConfiguration) ([]cluster.Volume, error) {
	out, err := parseVolumes(in)
	for _, v := range out {
		if v.Tags != nil && v.Tags.Propagate == string(types.PropagateTagsService) {
			return nil,
				input.Invalid("volumeConfigurations.managedEBSVolume.tagSpecifications.propagateTags SERVICE is " +
					"for tasks of services. Specify TASK_DEFINITION or NONE.")
		}
	}
	return out, err
}

func parseVolumes(in []types.TaskVolumeConfiguration) (out []cluster.Volume, err error) {
	if len(in) > maxVolumes {
		return nil, input.Invalid("volumeConfigurations has %d items, but a task has at most %d.", len(in), maxVolumes)
	}
	for _, v := range in {
		one, err := parseVolume(v)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// parseVolume reads the settings of one volume. What a type of volume cannot have, such as a
// throughput of a gp2 volume, is EBS's to refuse when the volume is created.
func parseVolume(v types.TaskVolumeConfiguration) (out cluster.Volume, err error) {
	const member = "volumeConfigurations.managedEBSVolume"
	e := v.ManagedEBSVolume
	if err := input.CheckRequired("volumeConfigurations.name", v.Name); err != nil {
		return out, err
	}
	if e == nil {
		return out, input.Invalid("%s must not be empty.", member)
	}
	if err := input.CheckOneOf(member+".filesystemType", e.FilesystemType); err != nil {
		return out, err
	}
	out = cluster.Volume{
		Name: *v.Name, Role: input.Value(e.RoleArn), Type: input.Value(e.VolumeType),
		GiB:      int(input.Value(e.SizeInGiB)),
		Snapshot: input.Value(e.SnapshotId), InitRate: int(input.Value(e.VolumeInitializationRate)),
		IOPS: int(input.Value(e.Iops)), Throughput: int(input.Value(e.Throughput)),
		FileSystem: string(e.FilesystemType), Encrypted: e.Encrypted, KMSKey: input.Value(e.KmsKeyId),
	}
	if p := e.TerminationPolicy; p != nil {
		out.Kept = p.DeleteOnTermination != nil && !*p.DeleteOnTermination
	}
	for _, bounded := range []struct {
		name  string
		given *int32
		most  int32
	}{
		{"sizeInGiB", e.SizeInGiB, maxVolumeGiB}, {"iops", e.Iops, maxVolumeIOPS},
		{"throughput", e.Throughput, maxThroughput}, {"volumeInitializationRate", e.VolumeInitializationRate,
			maxInitRate},
	} {
		if n := bounded.given; n != nil && (*n < 1 || *n > bounded.most) {
			return out, input.Invalid("%s.%s is %d, but must be between 1 and %d.", member, bounded.name, *n,
				bounded.most)
		}
	}
	switch {
	case !volumeRoles.MatchString(out.Role):
		return out, input.Invalid("%s.roleArn is %.300q, expected the ARN of a role.", member, out.Role)
	case out.GiB == 0 && out.Snapshot == "":
		return out, input.Invalid("%s must have sizeInGiB or snapshotId.", member)
	case out.InitRate > 0 && out.Snapshot == "":
		return out, input.Invalid("%s.volumeInitializationRate needs snapshotId.", member)
	case out.Type != "" && !slices.Contains(volumeTypes, out.Type):
		return out, input.Invalid("%s.volumeType is %.60q, %s", member, out.Type,
			choice.Expected(out.Type, volumeTypes))
	}
	for _, text := range []struct {
		name, given string
		most        int
	}{
		{"name", out.Name, maxVolumeText}, {"snapshotId", out.Snapshot, maxVolumeText},
		{"kmsKeyId", out.KMSKey, maxVolumeKey},
	} {
		if err := input.CheckLength(member+"."+text.name, text.given, text.most); err != nil {
			return out, err
		}
	}
	out.Tags, err = parseVolumeTags(e.TagSpecifications)
	return out, err
}

// How many characters texts of a volume have.
const maxVolumeText, maxVolumeKey = 255, 2048

// parseVolumeTags reads tagSpecifications: at most one, because volumes are the only resource.
func parseVolumeTags(in []types.EBSTagSpecification) (*cluster.VolumeTags, error) {
	const member = "volumeConfigurations.managedEBSVolume.tagSpecifications"
	if len(in) == 0 {
		return nil, nil
	}
	if len(in) > 1 {
		return nil, input.Invalid("%s has %d items, but at most 1 is allowed.", member, len(in))
	}
	s := in[0]
	if err := input.CheckRequired(member+".resourceType", (*string)(&s.ResourceType)); err != nil {
		return nil, err
	}
	if err := input.CheckOneOf(member+".resourceType", s.ResourceType); err != nil {
		return nil, err
	}
	if err := input.CheckOneOf(member+".propagateTags", s.PropagateTags); err != nil {
		return nil, err
	}
	own, err := checkTags(s.Tags, nil)
	return &cluster.VolumeTags{Propagate: string(s.PropagateTags), Own: own}, err
}

// checkVolumes refuses volumes that the definition does not leave to the start of a task, a
// definition whose volume is not given, and roles that the caller may not pass. External instances
// have no EBS volumes.
func (t *taskDefinitions) checkVolumes(
	ctx context.Context, name string, volumes []cluster.Volume, external bool,
) error {
	d, err := t.cachedDefinition(ctx, name)
	if err != nil {
		return err
	}
	if external && len(volumes) > 0 {
		return input.Invalid("The EXTERNAL launch type does not support volumeConfigurations. Remove them and " +
			"try again.")
	}
	var roles []string
	for _, v := range volumes {
		// The words are ECS's.
		if !slices.ContainsFunc(d.Volumes, func(o types.Volume) bool {
			return input.Value(o.ConfiguredAtLaunch) && input.Value(o.Name) == v.Name
		}) {
			return input.Invalid("Volume configuration provided but no matching configuredAtLaunch volume found in " +
				"task definition.")
		}
		roles = append(roles, v.Role)
	}
	for _, o := range d.Volumes {
		if input.Value(o.ConfiguredAtLaunch) && !slices.ContainsFunc(volumes,
			func(v cluster.Volume) bool { return v.Name == input.Value(o.Name) }) {
			return input.Invalid("The task definition has the volume %.255s with configuredAtLaunch, but there is no "+
				"volumeConfigurations for it.", input.Value(o.Name))
		}
	}
	return t.roles.checkPassable(roles)
}
