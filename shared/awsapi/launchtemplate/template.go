// Package launchtemplate calls Amazon EC2 for what Auto Scaling groups launch: node-group updates
// find and create versions of launch templates, managed scaling asks how large instance types are.
// It is apart from package awsapi because EC2's client is large and only the functions of groups
// need it. Errors are those of awsapi.CallError. Start at [Templates.LaunchTemplate].
package launchtemplate

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// Templates calls EC2 for launch templates and instance types.
type Templates struct {
	Client *ec2.Client
}

// NewTemplates returns the launch templates that a configuration of the SDK leads to.
func NewTemplates(c aws.Config) *Templates { return &Templates{Client: ec2.NewFromConfig(c)} }

// LaunchTemplate returns one version of a launch template, $Default if the reference names none.
func (t *Templates) LaunchTemplate(ctx context.Context, ref cluster.TemplateRef) (*cluster.LaunchTemplate, error) {
	v, err := t.describeVersion(ctx, ref)
	if err != nil {
		return nil, err
	}
	out := toLaunchTemplate(v)
	if d := v.LaunchTemplateData; d != nil && d.InstanceRequirements != nil {
		requirements, err := json.Marshal(d.InstanceRequirements)
		if err != nil {
			return nil, fmt.Errorf("reading the instance requirements of launch template %s: %w", out, err)
		}
		out.Requirements = string(requirements)
	}
	return out, nil
}

// describeVersion finds the template by id if the reference has one, otherwise by name. EC2 refuses
// both.
func (t *Templates) describeVersion(
	ctx context.Context, ref cluster.TemplateRef,
) (*types.LaunchTemplateVersion, error) {
	version := ref.Version
	if version == "" {
		version = "$Default"
	}
	in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{version}}
	if in.LaunchTemplateId = &ref.ID; ref.ID == "" {
		in.LaunchTemplateId, in.LaunchTemplateName = nil, &ref.Name
	}
	out, err := t.Client.DescribeLaunchTemplateVersions(ctx, in)
	switch {
	case err != nil:
		return nil, fmt.Errorf("describing launch template %s%s: %w", ref.ID, ref.Name, awsapi.CallError(err))
	case len(out.LaunchTemplateVersions) == 0:
		return nil, cluster.Errorf("InvalidLaunchTemplateId.VersionNotFound", "Launch template %s%s has no version %s",
			ref.ID, ref.Name, version)
	}
	return &out.LaunchTemplateVersions[0], nil
}

func toLaunchTemplate(v *types.LaunchTemplateVersion) *cluster.LaunchTemplate {
	out := &cluster.LaunchTemplate{ID: aws.ToString(v.LaunchTemplateId), Name: aws.ToString(v.LaunchTemplateName),
		Version: aws.ToInt64(v.VersionNumber)}
	if d := v.LaunchTemplateData; d != nil {
		out.Image, out.Type, out.Settings = aws.ToString(d.ImageId), string(d.InstanceType), nodeGroupSettings(d)
		// EC2 accepts user data in base64 only.
		userData, _ := base64.StdEncoding.DecodeString(aws.ToString(d.UserData))
		out.UserData = string(userData)
	}
	return out
}

// nodeGroupSettings returns those of [cluster.NodeGroupSettings] that a version has.
func nodeGroupSettings(d *types.ResponseLaunchTemplateData) string {
	has := map[string]bool{
		cluster.SettingProfile: d.IamInstanceProfile != nil, cluster.SettingSpot: d.InstanceMarketOptions != nil,
		cluster.SettingHibernation: d.HibernationOptions != nil && aws.ToBool(d.HibernationOptions.Configured),
		cluster.SettingShutdown:    d.InstanceInitiatedShutdownBehavior != "",
		cluster.SettingSubnet: slices.ContainsFunc(d.NetworkInterfaces,
			func(n types.LaunchTemplateInstanceNetworkInterfaceSpecification) bool { return n.SubnetId != nil }),
	}
	names := slices.Clone(cluster.NodeGroupSettings)
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return !has[name] }), ", ")
}

// FindVersion returns the newest version of a template with a description, nil if there is none. An
// update that is repeated finds by it the version that it has created already.
func (t *Templates) FindVersion(
	ctx context.Context, id, description string,
) (found *cluster.LaunchTemplate, err error) {
	pages := ec2.NewDescribeLaunchTemplateVersionsPaginator(t.Client,
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the versions of launch template %s: %w", id, awsapi.CallError(err))
		}
		for _, v := range page.LaunchTemplateVersions {
			if aws.ToString(v.VersionDescription) == description &&
				(found == nil || aws.ToInt64(v.VersionNumber) > found.Version) {
				found = toLaunchTemplate(&v)
			}
		}
	}
	return found, nil
}

// CreateVersion creates a version of a template that differs from another one in what is given: the
// image by id or by name, the user data, the instance profile.
func (t *Templates) CreateVersion(ctx context.Context, v cluster.NewTemplateVersion) (*cluster.LaunchTemplate, error) {
	in := &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &v.Template, VersionDescription: &v.Description}
	if v.From.ID == v.Template {
		in.SourceVersion, in.LaunchTemplateData = &v.From.Version, &types.RequestLaunchTemplateData{}
	} else {
		// EC2 takes a source version of the same template only: copy what another one has.
		data, err := t.copyData(ctx, v.From)
		if err != nil {
			return nil, err
		}
		in.LaunchTemplateData = data
	}
	if v.Image != "" {
		image, err := t.resolveImage(ctx, v.Image)
		if err != nil {
			return nil, err
		}
		in.LaunchTemplateData.ImageId = &image
	}
	if v.UserData != "" {
		in.LaunchTemplateData.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(v.UserData)))
	}
	if v.Profile != "" {
		in.LaunchTemplateData.IamInstanceProfile = profileRequest(v.Profile)
	}
	out, err := t.Client.CreateLaunchTemplateVersion(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("creating a version of launch template %s: %w", v.Template, awsapi.CallError(err))
	}
	return toLaunchTemplate(out.LaunchTemplateVersion), nil
}

// copyData returns the data of a version, as a request has it.
func (t *Templates) copyData(ctx context.Context, ref cluster.TemplateRef) (*types.RequestLaunchTemplateData, error) {
	from, err := t.describeVersion(ctx, ref)
	if err != nil {
		return nil, err
	}
	data, err := toRequestData(from.LaunchTemplateData)
	return data, cluster.Wrap(err, "copying version %s of launch template %s", ref.Version, ref.ID)
}

// resolveImage returns the id of an AMI that is given by id, by a parameter that EC2 resolves, or
// by name. A name must be that of exactly one image of this account or of Amazon: anybody can
// publish an image of any name.
func (t *Templates) resolveImage(ctx context.Context, image string) (string, error) {
	if strings.HasPrefix(image, "ami-") || strings.HasPrefix(image, "resolve:") {
		return image, nil
	}
	out, err := t.Client.DescribeImages(ctx, &ec2.DescribeImagesInput{
		Owners: []string{"self", "amazon"}, Filters: []types.Filter{{Name: aws.String("name"),
			Values: []string{image}}},
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("looking up image %s: %w", image, awsapi.CallError(err))
	case len(out.Images) != 1:
		return "", cluster.Errorf("InvalidAMIID.NotFound",
			"%d images of this account or of Amazon have the name %s, expected one", len(out.Images), image)
	}
	return aws.ToString(out.Images[0].ImageId), nil
}

// toRequestData returns the data of a version in the type of a request. Both have the same members.
// A member that a request does not have is an error, because the copy would lack it.
func toRequestData(described *types.ResponseLaunchTemplateData) (*types.RequestLaunchTemplateData, error) {
	data, err := json.Marshal(described)
	if err != nil {
		return nil, err
	}
	out := new(types.RequestLaunchTemplateData)
	return out, decodeMembers(data, out)
}

// decodeMembers reads members that are present into a type of a request that has all of them.
func decodeMembers(data []byte, to any) error {
	var members any
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	data, err := json.Marshal(withoutEmpty(members))
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// withoutEmpty removes null and empty strings, which stand for absent members.
func withoutEmpty(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for name, member := range x {
			if member = withoutEmpty(member); member == nil || member == "" {
				delete(x, name)
				continue
			}
			x[name] = member
		}
		return x
	case []any:
		for k := range x {
			x[k] = withoutEmpty(x[k])
		}
	}
	return v
}
