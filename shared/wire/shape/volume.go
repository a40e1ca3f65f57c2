package shape

import (
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// TaskVolumeShapes returns the volumes of a task as StartTask takes them; nil for none.
func TaskVolumeShapes(volumes []cluster.Volume) []types.TaskVolumeConfiguration {
	return ConvertEach(volumes, func(v cluster.Volume) types.TaskVolumeConfiguration {
		return types.TaskVolumeConfiguration{Name: &v.Name, ManagedEBSVolume: &types.TaskManagedEBSVolumeConfiguration{
			RoleArn: &v.Role, VolumeType: TextOrNil(v.Type), SizeInGiB: numberOrNil(v.GiB),
			SnapshotId: TextOrNil(v.Snapshot), VolumeInitializationRate: numberOrNil(v.InitRate),
			Iops: numberOrNil(v.IOPS), Throughput: numberOrNil(v.Throughput),
			FilesystemType: types.TaskFilesystemType(v.FileSystem), Encrypted: v.Encrypted,
			KmsKeyId: TextOrNil(v.KMSKey), TagSpecifications: volumeTagShapes(v.Tags),
			TerminationPolicy: &types.TaskManagedEBSVolumeTerminationPolicy{DeleteOnTermination: new(!v.Kept)},
		}}
	})
}

// ServiceVolumeShapes returns the volumes of a revision as DescribeServices shows them; nil for
// none.
func ServiceVolumeShapes(volumes []cluster.Volume) []types.ServiceVolumeConfiguration {
	return ConvertEach(TaskVolumeShapes(volumes),
		func(v types.TaskVolumeConfiguration) types.ServiceVolumeConfiguration {
			e := v.ManagedEBSVolume
			return types.ServiceVolumeConfiguration{Name: v.Name,
				ManagedEBSVolume: &types.ServiceManagedEBSVolumeConfiguration{
					RoleArn: e.RoleArn, VolumeType: e.VolumeType, SizeInGiB: e.SizeInGiB, SnapshotId: e.SnapshotId,
					VolumeInitializationRate: e.VolumeInitializationRate, Iops: e.Iops, Throughput: e.Throughput,
					FilesystemType: e.FilesystemType, Encrypted: e.Encrypted, KmsKeyId: e.KmsKeyId,
					TagSpecifications: e.TagSpecifications,
				}}
		})
}

func volumeTagShapes(t *cluster.VolumeTags) []types.EBSTagSpecification {
	if t == nil {
		return nil
	}
	return []types.EBSTagSpecification{{
		ResourceType: types.EBSResourceTypeVolume, PropagateTags: types.PropagateTags(t.Propagate),
		Tags: TagShapes(t.Own),
	}}
}

func numberOrNil(n int) *int32 {
	if n == 0 {
		return nil
	}
	return new(int32(n))
}
