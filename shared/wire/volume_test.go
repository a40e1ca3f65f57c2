package wire_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

// An EBS volume that the definition leaves to the start reaches the scheduler with all its
// settings, and is shown as it was given.
func TestVolumes(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/ecsInfrastructure"
	longest := strings.Repeat("é", 255)
	tags := []types.EBSTagSpecification{{ResourceType: types.EBSResourceTypeVolume,
		PropagateTags: types.PropagateTagsService,
		Tags:          []types.Tag{{Key: new("a"), Value: new("b")}}}}
	given := []types.ServiceVolumeConfiguration{{Name: new("data"),
		ManagedEBSVolume: &types.ServiceManagedEBSVolumeConfiguration{
			RoleArn: new(role), VolumeType: new("gp3"), SizeInGiB: new(int32(20)), Iops: new(int32(3000)),
			Throughput: new(int32(125)), SnapshotId: new(longest), VolumeInitializationRate: new(int32(100)),
			FilesystemType: types.TaskFilesystemTypeExt4, Encrypted: new(false), KmsKeyId: new("key"),
			TagSpecifications: tags,
		}}}
	want := cluster.Volume{Name: "data", Role: role, Type: "gp3", GiB: 20, IOPS: 3000, Throughput: 125,
		Snapshot: longest,
		InitRate: 100, FileSystem: "ext4", Encrypted: new(false), KMSKey: "key",
		Tags: &cluster.VolumeTags{Propagate: "SERVICE", Own: map[string]string{"a": "b"}}}
	b := newBerth(t)
	b.create(t, func(in *ecs.CreateServiceInput) {
		in.TaskDefinition, in.VolumeConfigurations = new("volume"), given
	})
	expect(t, "made", *b.scheduler.lastMade.Volumes, []cluster.Volume{want})
	if _, err := b.UpdateService(t.Context(), &ecs.UpdateServiceInput{Cluster: new("prod"), Service: new("web"),
		VolumeConfigurations: given}); err != nil {
		t.Fatal(err)
	}
	e := given[0].ManagedEBSVolume
	tags[0].PropagateTags = types.PropagateTagsTaskDefinition
	volumes := []types.TaskVolumeConfiguration{{Name: new("data"),
		ManagedEBSVolume: &types.TaskManagedEBSVolumeConfiguration{
			RoleArn: e.RoleArn, VolumeType: e.VolumeType, SizeInGiB: e.SizeInGiB, Iops: e.Iops,
			Throughput: e.Throughput,
			SnapshotId: e.SnapshotId, VolumeInitializationRate: e.VolumeInitializationRate,
			FilesystemType: e.FilesystemType,
			Encrypted:      e.Encrypted, KmsKeyId: e.KmsKeyId, TagSpecifications: tags,
			TerminationPolicy: &types.TaskManagedEBSVolumeTerminationPolicy{DeleteOnTermination: new(false)},
		}}}
	want.Kept, want.Tags = true, &cluster.VolumeTags{Propagate: "TASK_DEFINITION", Own: map[string]string{"a": "b"}}
	if _, err := b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("volume"),
		VolumeConfigurations: volumes, EnableExecuteCommand: true}); err != nil {
		t.Fatal(err)
	}
	expect(t, "run", b.scheduler.lastSpec.Options, &cluster.TaskOptions{ExecuteCommand: true,
		Volumes: []cluster.Volume{want}})
	if _, err := b.StartTask(t.Context(), &ecs.StartTaskInput{Cluster: new("prod"), TaskDefinition: new("volume"),
		ContainerInstances: []string{"0a"}, VolumeConfigurations: volumes}); err != nil {
		t.Fatal(err)
	}
	expect(t, "started", b.scheduler.lastSpec.Options, &cluster.TaskOptions{Volumes: []cluster.Volume{want}})
}

// oneGroup and twoGroups are load balancers of a CreateService; the list of oneGroup is open.
const (
	oneGroup = `"loadBalancers":[{"containerName":"app","containerPort":80,"targetGroupArn":` +
		`"arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/a/0123456789abcdef"}`
	twoGroups = oneGroup + `,{"containerName":"app","containerPort":80,"targetGroupArn":` +
		`"arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/b/0123456789abcdef"}]`
)

// The role of a service's load balancer is kept and shown, by its ARN.
func TestRoleOfAService(t *testing.T) {
	for given, want := range map[string]string{
		"ecsServiceRole":                         "arn:aws:iam::123456789012:role/ecsServiceRole",
		"/path/role":                             "arn:aws:iam::123456789012:role/path/role",
		"arn:aws:iam::123456789012:role/a/other": "arn:aws:iam::123456789012:role/a/other",
	} {
		b := newBerth(t)
		status, code, message := b.answered(t, "CreateService",
			`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"role":"`+
				given+`",`+oneGroup+`]}`)
		if status != 200 {
			t.Fatal(code, message)
		}
		expect(t, given, b.scheduler.lastMade.Role, want)
	}
}

// Files of variables of an override go to ECS with the start of the task.
func TestEnvironmentFiles(t *testing.T) {
	const file = "arn:aws:s3:::bucket/vars.env"
	files := func(n int, kind types.EnvironmentFileType, value string) *types.TaskOverride {
		return &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: new("app"),
			EnvironmentFiles: slices.Repeat([]types.EnvironmentFile{{Type: kind, Value: &value}}, n)}}}
	}
	b := newBerth(t)
	run := func(o *types.TaskOverride) error {
		_, err := b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop"),
			Overrides: o})
		return err
	}
	if err := run(files(2, types.EnvironmentFileTypeS3, file)); err != nil {
		t.Fatal(err)
	}
	given := b.scheduler.lastSpec.Overrides
	expect(t, "kept", given.Containers[0].EnvironmentFiles, []string{file, file})
	expect(t, "for ECS", *shape.OverrideShape(given), *files(2, types.EnvironmentFileTypeS3, file))
	for name, o := range map[string]*types.TaskOverride{
		"Many": files(11, types.EnvironmentFileTypeS3, file), "NoValue": files(1, types.EnvironmentFileTypeS3, ""),
		"Type": files(1, "http", file), "Long": files(10, types.EnvironmentFileTypeS3, strings.Repeat("x", 1000)),
	} {
		if err := run(o); err == nil || !strings.Contains(err.Error(), invalidParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Volumes that cannot be made are refused before anything is written.
func TestBadVolumes(t *testing.T) {
	const ebs = `"roleArn":"arn:aws:iam::123456789012:role/r","sizeInGiB":20`
	volume := func(more string) string {
		return `"volumeConfigurations":[{"name":"data","managedEBSVolume":{` + ebs + more + `}}]`
	}
	for name, c := range map[string]struct{ definition, members, text string }{
		"NotInTheDefinition": {"shop", volume(""), "no matching configuredAtLaunch volume found"},
		"NotAtLaunch": {"volume", strings.Replace(volume(""), "data", "host", 1),
			"no matching configuredAtLaunch volume found"},
		"Missing":  {"volume", `"volumeConfigurations":[]`, "has the volume data with configuredAtLaunch"},
		"Twice":    {"volume", `"volumeConfigurations":[{"name":"data"},{"name":"data"}]`, "at most 1"},
		"Nothing":  {"volume", `"volumeConfigurations":[{"name":"data"}]`, "managedEBSVolume must not be empty"},
		"NoName":   {"volume", strings.Replace(volume(""), "data", "", 1), "volumeConfigurations.name"},
		"NoRole":   {"volume", strings.Replace(volume(""), "arn:aws:iam", "arn", 1), "roleArn"},
		"NoSize":   {"volume", strings.Replace(volume(""), `,"sizeInGiB":20`, "", 1), "sizeInGiB or snapshotId"},
		"Size":     {"volume", strings.Replace(volume(""), "20", "16385", 1), "sizeInGiB is 16385"},
		"IOPS":     {"volume", volume(`,"iops":0`), "iops is 0"},
		"Rate":     {"volume", volume(`,"throughput":1001`), "throughput is 1001"},
		"Snapshot": {"volume", volume(`,"snapshotId":"` + strings.Repeat("é", 256) + `"`), "at most 255 characters"},
		"Key":      {"volume", volume(`,"kmsKeyId":"` + strings.Repeat("é", 2049) + `"`), "at most 2048 characters"},
		"InitRate": {"volume", volume(`,"volumeInitializationRate":100`), "needs snapshotId"},
		"Type":     {"volume", volume(`,"volumeType":"gp1"`), "volumeType"},
		"System":   {"volume", volume(`,"filesystemType":"fat"`), "filesystemType"},
		"Tags":     {"volume", volume(`,"tagSpecifications":[{"resourceType":"disk"}]`), "resourceType"},
		"Reserved": {"volume", volume(`,"tagSpecifications":[{"resourceType":"volume","tags":[{"key":"aws:a"}]}]`),
			"aws:"},
	} {
		t.Run(name, func(t *testing.T) {
			for op, base := range map[string]string{
				"CreateService": `{"serviceName":"s","desiredCount":1,"cluster":"prod",`,
				"RunTask":       `{"cluster":"prod",`,
				"StartTask":     `{"cluster":"prod","containerInstances":["0a"],`,
			} {
				b := newBerth(t)
				status, code, message := b.answered(t, op, base+`"taskDefinition":"`+c.definition+`",`+c.members+`}`)
				if status != 400 || code != invalidParameter || !strings.Contains(message, c.text) {
					t.Errorf("%s: %d %s %s", op, status, code, message)
				}
			}
		})
	}
	for op, body := range map[string]string{
		"RunTask": `{"taskDefinition":"volume",` + volume(`,"tagSpecifications":[{"resourceType":"volume","propagateTags":"SERVICE"}]`) + `}`,
		"CreateService": `{"serviceName":"s","desiredCount":1,"deploymentController":{"type":"EXTERNAL"},` +
			volume("") + `}`,
	} {
		if status, code, message := newBerth(t).answered(t, op, body); status != 400 || code != invalidParameter {
			t.Errorf("%s: %d %s %s", op, status, code, message)
		}
	}
}
