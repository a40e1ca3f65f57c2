package contract

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"berth/shared/awsapi/launchtemplate"
	"berth/shared/cluster"
)

func TestLaunchTemplates(t *testing.T) {
	onScalers(t, templateClauses)
}

func templateClauses(t *testing.T, b *scaler) []clause {
	client, templates := ec2.NewFromConfig(b.config), launchtemplate.NewTemplates(b.config)
	own, group := "", ""
	for name, id := range map[string]*string{"own": &own, "group": &group} {
		out, err := client.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: &name, LaunchTemplateData: &types.RequestLaunchTemplateData{
				ImageId: aws.String("ami-12c6146b"), InstanceType: types.InstanceTypeM5Large,
				UserData: aws.String("YQ=="), KeyName: &name,
				TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{
					ResourceType: types.ResourceTypeInstance,
					Tags:         []types.Tag{{Key: aws.String("team"), Value: &name}},
				}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		*id = *out.LaunchTemplate.LaunchTemplateId
	}
	data := func(ref cluster.TemplateRef) *types.ResponseLaunchTemplateData {
		out, err := client.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
			LaunchTemplateId: &ref.ID, Versions: []string{ref.Version},
		})
		if err != nil || len(out.LaunchTemplateVersions) != 1 {
			t.Fatal(out, err)
		}
		return out.LaunchTemplateVersions[0].LaunchTemplateData
	}
	return []clause{
		{"AVersionIsDescribedByIDAndByName", func() error {
			a, err := templates.LaunchTemplate(t.Context(), cluster.TemplateRef{ID: own, Version: "1"})
			b, other := templates.LaunchTemplate(t.Context(), cluster.TemplateRef{Name: "own"})
			return errors.Join(err, other, checkEqual("by id", *a,
				cluster.LaunchTemplate{ID: own, Name: "own", Version: 1, Image: "ami-12c6146b"}),
				checkEqual("by name", *b, *a))
		}},
		{"AVersionIsMadeOfTheSameTemplate", func() error {
			made, err := templates.CreateVersion(t.Context(), cluster.NewTemplateVersion{
				Template: group, From: cluster.TemplateRef{ID: group, Version: "1"}, Description: "d", Image: "ami-0",
			})
			if err != nil {
				return err
			}
			found, err := templates.FindVersion(t.Context(), group, "d")
			if err != nil || found == nil {
				return errors.Join(err, errors.New("it is not found"))
			}
			return errors.Join(checkEqual("found", *found, *made), checkEqual("image", made.Image, "ami-0"))
		}},
		{"AVersionIsMadeOfAnotherTemplate", func() error {
			made, err := templates.CreateVersion(t.Context(), cluster.NewTemplateVersion{
				Template: group, From: cluster.TemplateRef{ID: own, Version: "1"}, Description: "e", Image: "ami-1",
			})
			if err != nil {
				return err
			}
			d := data(cluster.TemplateRef{ID: group, Version: made.String()[len(group)+1:]})
			return errors.Join(checkEqual("image", *d.ImageId, "ami-1"),
				checkEqual("type", d.InstanceType, types.InstanceTypeM5Large),
				checkEqual("user data", *d.UserData, "YQ=="),
				checkEqual("key", *d.KeyName, "own"), checkEqual("tag", *d.TagSpecifications[0].Tags[0].Value, "own"))
		}},
		{"NoVersionHasAnotherDescription", func() error {
			found, err := templates.FindVersion(t.Context(), group, "none")
			return errors.Join(err, checkEqual("found", found == nil, true))
		}},
		{"NoSuchTemplate", func() error {
			_, err := templates.LaunchTemplate(t.Context(), cluster.TemplateRef{ID: "lt-00000000000000000"})
			return checkEqual("the code", cluster.ErrorCode(err), "InvalidLaunchTemplateId.NotFound")
		}},
		{"AnImageIsFoundByItsName", func() error {
			images, err := client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"amazon"}})
			if err != nil {
				return err
			}
			made, err := templates.CreateVersion(t.Context(), cluster.NewTemplateVersion{
				Template: group, From: cluster.TemplateRef{ID: group, Version: "1"}, Description: "f",
				Image: *images.Images[0].Name,
			})
			if err != nil {
				return err
			}
			_, none := templates.CreateVersion(t.Context(),
				cluster.NewTemplateVersion{Template: group, From: cluster.TemplateRef{ID: group, Version: "1"},
					Image: "no such image"})
			return errors.Join(checkEqual("image", made.Image, *images.Images[0].ImageId),
				checkEqual("the code", cluster.ErrorCode(none), "InvalidAMIID.NotFound"))
		}},
	}
}
