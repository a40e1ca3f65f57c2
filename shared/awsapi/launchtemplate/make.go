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
	data, err := t.newTemplateData(ctx, n)
	if err != nil {
		return nil, err
	}
	in := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &n.Name, LaunchTemplateData: data}
	specification := types.TagSpecification{ResourceType: types.ResourceTypeLaunchTemplate}
	for _, key := range slices.Sorted(maps.Keys(n.Tags)) {
		specification.Tags = append(specification.Tags, types.Tag{Key: &key, Value: aws.String(n.Tags[key])})
	}
	in.TagSpecifications = []types.TagSpecification{specification}
	_, err = t.Client.CreateLaunchTemplate(ctx, in)
	err = awsapi.CallError(err)
	if err != nil && cluster.ErrorCode(err) != "InvalidLaunchTemplateName.AlreadyExistsException" {
		return nil, cluster.Wrap(err, "creating launch template %s", n.Name)
	}
	return t.LaunchTemplate(ctx, cluster.TemplateRef{Name: n.Name, Version: "1"})
}

// newTemplateData returns the data of a new launch template.
func (t *Templates) newTemplateData(
	ctx context.Context, n cluster.NewTemplate,
) (*types.RequestLaunchTemplateData, error) {
	data := &types.RequestLaunchTemplateData{}
	if n.From.ID == "" {
		data.BlockDeviceMappings = []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: &n.Device,
			Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{DeleteOnTermination: aws.Bool(true),
				VolumeSize: aws.Int32(int32(n.DiskSize)), VolumeType: types.VolumeTypeGp3}}}
	} else {
		var err error
		if data, err = t.copyData(ctx, n.From); err != nil {
			return nil, err
		}
	}
	if n.UserData != "" {
		data.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(n.UserData)))
	}
	data.ImageId, data.IamInstanceProfile = &n.Image, profileRequest(n.Profile)
	return data, nil
}

func profileRequest(name string) *types.LaunchTemplateIamInstanceProfileSpecificationRequest {
	return &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &name}
}

// DeleteTemplate deletes a launch template with all of its versions, if there is one.
func (t *Templates) DeleteTemplate(ctx context.Context, name string) error {
	_, err := t.Client.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
	if err = awsapi.CallError(err); cluster.ErrorCode(err) == "InvalidLaunchTemplateName.NotFoundException" {
		return nil
	}
	return cluster.Wrap(err, "deleting launch template %s", name)
}
