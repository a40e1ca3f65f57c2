package contract

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"berth/shared/awsapi/launchtemplate"
	"berth/shared/cluster"
	simulated "berth/shared/sim/ec2"
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
				cluster.LaunchTemplate{ID: own, Name: "own", Version: 1, Image: "ami-12c6146b",
					Type: "m5.large", UserData: "a"}),
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
		{"ATemplateIsMadeOfAnother", func() error {
			made, err := templates.EnsureTemplate(t.Context(), cluster.NewTemplate{Name: "copy", Image: "ami-0",
				From: cluster.TemplateRef{ID: own, Version: "1"}, Profile: "p",
				Tags: map[string]string{"team": "blue"}})
			if err != nil {
				return err
			}
			ref := cluster.TemplateRef{ID: made.ID, Version: "1"}
			if got := data(ref); aws.ToString(got.KeyName) != "own" || got.IamInstanceProfile == nil ||
				aws.ToString(got.IamInstanceProfile.Name) != "p" {
				return fmt.Errorf("the copy has %+v", got)
			}
			version, err := templates.CreateVersion(t.Context(),
				cluster.NewTemplateVersion{Template: made.ID, From: ref,
					Image: "ami-1", UserData: "c", Profile: "q", Description: "v"})
			if err != nil {
				return err
			}
			got := data(cluster.TemplateRef{ID: made.ID, Version: "2"})
			return errors.Join(checkEqual("copy", *made, cluster.LaunchTemplate{ID: made.ID, Name: "copy", Version: 1,
				Image: "ami-0", Type: "m5.large", UserData: "a", Settings: "IamInstanceProfile"}),
				checkEqual("image of its next version", version.Image, "ami-1"),
				checkEqual("its user data", version.UserData, "c"),
				checkEqual("its profile", aws.ToString(got.IamInstanceProfile.Name), "q"))
		}},
		{"SettingsAreNamedThatANodeGroupCannotHave", func() error {
			out, err := client.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
				LaunchTemplateName: aws.String("settings"), LaunchTemplateData: &types.RequestLaunchTemplateData{
					InstanceMarketOptions: &types.LaunchTemplateInstanceMarketOptionsRequest{
						MarketType: types.MarketTypeSpot},
					HibernationOptions:                &types.LaunchTemplateHibernationOptionsRequest{Configured: aws.Bool(true)},
					InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate,
					NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
						DeviceIndex: aws.Int32(0), SubnetId: aws.String("subnet-1")}},
				}})
			if err != nil {
				return err
			}
			got, err := templates.LaunchTemplate(t.Context(),
				cluster.TemplateRef{ID: *out.LaunchTemplate.LaunchTemplateId})
			return errors.Join(err, checkEqual("settings", got.Settings, "InstanceMarketOptions, HibernationOptions, "+
				"InstanceInitiatedShutdownBehavior, NetworkInterfaces.SubnetId"))
		}},
		{"AVersionGetsOtherUserData", func() error {
			made, err := templates.CreateVersion(t.Context(), cluster.NewTemplateVersion{
				Template: group, From: cluster.TemplateRef{ID: group, Version: "1"}, Description: "u", Image: "ami-0",
				UserData: "b\n",
			})
			if err != nil {
				return err
			}
			d := data(cluster.TemplateRef{ID: group, Version: made.String()[len(group)+1:]})
			return errors.Join(checkEqual("returned", made.UserData, "b\n"),
				checkEqual("user data", *d.UserData, "Ygo="),
				checkEqual("image", *d.ImageId, "ami-0"))
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
		{"TypesAreDescribed", func() error {
			got, err := templates.DescribeTypes(t.Context(), []string{"m5.large", "m6g.xlarge", "g4dn.12xlarge"})
			slices.SortFunc(got, func(a, b cluster.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
			return errors.Join(err, checkEqual("types", fmt.Sprint(got), fmt.Sprint([]cluster.InstanceType{
				{Name: "g4dn.12xlarge", VCPUs: 48, Memory: 196608, GPUs: 4, Interfaces: 8, Architecture: "x86_64"},
				{Name: "m5.large", VCPUs: 2, Memory: 8192, Interfaces: 3, Architecture: "x86_64"},
				{Name: "m6g.xlarge", VCPUs: 4, Memory: 16384, Interfaces: 4, Architecture: "arm64"},
			})))
		}},
		{"AllSimulatedTypesAreThoseOfEC2", func() error {
			names := slices.DeleteFunc(simulated.MachineTypes(), func(name string) bool {
				return strings.HasPrefix(name, "p3.") // which moto's copy of EC2's answers does not have
			})
			got, err := templates.DescribeTypes(t.Context(), names)
			if err != nil {
				return err
			}
			for _, g := range got {
				want, known := simulated.InstanceType(g.Name)
				if err := errors.Join(checkEqual("known", known, true), checkEqual(g.Name, g, want)); err != nil {
					return err
				}
			}
			return checkEqual("types", len(got), len(names))
		}},
		{"AnUnknownTypeIsRefused", func() error {
			_, err := templates.DescribeTypes(t.Context(), []string{"m5.large", "m5.none"})
			return checkEqual("the code", cluster.ErrorCode(err), "InvalidInstanceType")
		}},
		{"TypesAreFoundByAttributes", func() error {
			made, err := client.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
				LaunchTemplateName: aws.String("selection"), LaunchTemplateData: &types.RequestLaunchTemplateData{
					InstanceRequirements: &types.InstanceRequirementsRequest{
						VCpuCount:        &types.VCpuCountRangeRequest{Min: aws.Int32(4), Max: aws.Int32(8)},
						MemoryMiB:        &types.MemoryMiBRequest{Min: aws.Int32(30000)},
						AcceleratorCount: &types.AcceleratorCountRequest{Max: aws.Int32(0)},
						AllowedInstanceTypes: []string{"m5.xlarge", "m5.2xlarge", "r5.xlarge", "g4dn.2xlarge",
							"t3.2xlarge"},
					},
				},
			})
			if err != nil {
				return err
			}
			got, err := templates.LaunchTemplate(t.Context(),
				cluster.TemplateRef{ID: *made.LaunchTemplate.LaunchTemplateId, Version: "1"})
			if err != nil {
				return err
			}
			names, err := templates.MatchTypes(t.Context(), got.Requirements)
			slices.Sort(names)
			return errors.Join(err, checkEqual("type", got.Type, ""),
				checkEqual("matching", strings.Join(names, " "), "m5.2xlarge r5.xlarge"))
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
