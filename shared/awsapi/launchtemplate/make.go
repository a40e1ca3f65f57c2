package launchtemplate

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// EnsureTemplate makes a launch template and returns its first version. A template of that name may
// exist already.
func (t *Templates) EnsureTemplate(ctx context.Context, n cluster.NewTemplate) (*cluster.LaunchTemplate, error) {
	in := &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &n.Name,
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId:            &n.Image,
			IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &n.Profile},
			UserData:           aws.String(base64.StdEncoding.EncodeToString([]byte(n.UserData))),
			BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: &n.Device,
				Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{DeleteOnTermination: aws.Bool(true),
					VolumeSize: aws.Int32(int32(n.DiskSize)), VolumeType: types.VolumeTypeGp3}}},
		},
	}
	specification := types.TagSpecification{ResourceType: types.ResourceTypeLaunchTemplate}
	for _, key := range slices.Sorted(maps.Keys(n.Tags)) {
		specification.Tags = append(specification.Tags, types.Tag{Key: &key, Value: aws.String(n.Tags[key])})
	}
	in.TagSpecifications = []types.TagSpecification{specification}
	_, err := t.Client.CreateLaunchTemplate(ctx, in)
	err = awsapi.CallError(err)
	if err != nil && cluster.ErrorCode(err) != "InvalidLaunchTemplateName.AlreadyExistsException" {
		return nil, cluster.Wrap(err, "creating launch template %s", n.Name)
	}
	return t.LaunchTemplate(ctx, cluster.TemplateRef{Name: n.Name, Version: "1"})
}

// DeleteTemplate deletes a launch template with all of its versions, if there is one.
func (t *Templates) DeleteTemplate(ctx context.Context, name string) error {
	_, err := t.Client.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
	if err = awsapi.CallError(err); cluster.ErrorCode(err) == "InvalidLaunchTemplateName.NotFoundException" {
		return nil
	}
	return cluster.Wrap(err, "deleting launch template %s", name)
}
