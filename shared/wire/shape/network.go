package shape

import (
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/input"
)

// Bounds of a network configuration (ECS API reference, AwsVpcConfiguration).
const (
	maxSubnets        = 16
	maxSecurityGroups = 5
)

// ParseNetwork reads a networkConfiguration, nil if there is none. Bad counts, and a public
// address, which tasks on EC2 cannot have, are InvalidParameterExceptions.
func ParseNetwork(in *types.NetworkConfiguration) (*cluster.Network, error) {
	if in == nil || in.AwsvpcConfiguration == nil {
		return nil, nil
	}
	c := in.AwsvpcConfiguration
	switch n := len(c.Subnets); {
	case n == 0:
		return nil, input.Invalid("subnets can not be empty.")
	case n > maxSubnets:
		return nil, input.Invalid("subnets can have at most %d items.", maxSubnets)
	}
	if len(c.SecurityGroups) > maxSecurityGroups {
		return nil, input.Invalid("securityGroups cannot have more than %d items.", maxSecurityGroups)
	}
	const member = "networkConfiguration.awsvpcConfiguration.assignPublicIp"
	if err := input.CheckOneOf(member, c.AssignPublicIp); err != nil {
		return nil, err
	}
	if c.AssignPublicIp == types.AssignPublicIpEnabled {
		return nil, input.Invalid("Assign public IP is not supported for this launch type.")
	}
	return &cluster.Network{Subnets: c.Subnets, SecurityGroups: c.SecurityGroups}, nil
}

// NetworkShape returns a network as ECS takes and shows it; nil for nil. Tasks on EC2 instances
// never get a public address, so AssignPublicIp is always DISABLED.
func NetworkShape(n *cluster.Network) *types.NetworkConfiguration {
	if n == nil {
		return nil
	}
	return &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
		Subnets: n.Subnets, SecurityGroups: n.SecurityGroups, AssignPublicIp: types.AssignPublicIpDisabled,
	}}
}
