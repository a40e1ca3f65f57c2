package launchtemplate

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// typeBatch is how many types one call describes (EC2 API, DescribeInstanceTypes).
const typeBatch = 100

// maxTypes is more than EC2 has. An answer with more is an error, because a part of them would give
// wrong bounds.
const maxTypes = 3000

// DescribeTypes returns the sizes of the types named. EC2 refuses unknown ones.
func (t *Templates) DescribeTypes(ctx context.Context, names []string) (out []cluster.InstanceType, err error) {
	for batch := range slices.Chunk(names, typeBatch) {
		in := &ec2.DescribeInstanceTypesInput{}
		for _, name := range batch {
			in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
		}
		found, err := t.Client.DescribeInstanceTypes(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("describing instance types: %w", awsapi.CallError(err))
		}
		for _, d := range found.InstanceTypes {
			out = append(out, toInstanceType(d))
		}
	}
	return out, nil
}

// toInstanceType takes from EC2's description what ECS places tasks by.
func toInstanceType(d types.InstanceTypeInfo) cluster.InstanceType {
	out := cluster.InstanceType{Name: string(d.InstanceType)}
	if d.VCpuInfo != nil {
		out.VCPUs = int(aws.ToInt32(d.VCpuInfo.DefaultVCpus))
	}
	if d.MemoryInfo != nil {
		out.Memory = aws.ToInt64(d.MemoryInfo.SizeInMiB)
	}
	if d.NetworkInfo != nil {
		out.Interfaces = int(aws.ToInt32(d.NetworkInfo.MaximumNetworkInterfaces))
	}
	if d.GpuInfo != nil {
		for _, g := range d.GpuInfo.Gpus {
			if aws.ToString(g.Manufacturer) == "NVIDIA" {
				out.GPUs += int(max(aws.ToInt32(g.Count), aws.ToInt32(g.LogicalGpuCount)))
			}
		}
	}
	if d.ProcessorInfo != nil {
		for _, a := range d.ProcessorInfo.SupportedArchitectures {
			if a == types.ArchitectureTypeX8664 || a == types.ArchitectureTypeArm64 {
				out.Architecture = string(a)
			}
		}
	}
	return out
}

// MatchTypes returns the names of the types that an attribute-based selection matches. The image
// decides the architecture, and a selection does not have it, so it matches types of both.
func (t *Templates) MatchTypes(ctx context.Context, requirements string) (names []string, err error) {
	wanted := new(types.InstanceRequirementsRequest)
	if err := decodeMembers([]byte(requirements), wanted); err != nil {
		return nil, fmt.Errorf("reading instance requirements: %w", err)
	}
	pages := ec2.NewGetInstanceTypesFromInstanceRequirementsPaginator(t.Client,
		&ec2.GetInstanceTypesFromInstanceRequirementsInput{
			InstanceRequirements: wanted, VirtualizationTypes: []types.VirtualizationType{types.VirtualizationTypeHvm},
			ArchitectureTypes: []types.ArchitectureType{types.ArchitectureTypeX8664, types.ArchitectureTypeArm64},
		})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("finding instance types by attributes: %w", awsapi.CallError(err))
		}
		for _, found := range page.InstanceTypes {
			names = append(names, aws.ToString(found.InstanceType))
		}
		if len(names) > maxTypes {
			return nil, fmt.Errorf("more than %d instance types have the attributes of the group", maxTypes)
		}
	}
	return names, nil
}
