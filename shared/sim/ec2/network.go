package ec2

import (
	"context"
	"strings"

	"berth/shared/cluster"
)

// Networks are subnets and security groups. There are no simulated networks, so each id that has
// EC2's form exists.
type Networks struct{}

// CheckSubnets returns EC2's error if one of the ids is no subnet's.
func (Networks) CheckSubnets(_ context.Context, ids []string) error {
	return missing(ids, "subnet-", "InvalidSubnetID.NotFound", "subnet ID")
}

// CheckSecurityGroups returns EC2's error if one of the ids is no security group's.
func (Networks) CheckSecurityGroups(_ context.Context, ids []string) error {
	return missing(ids, "sg-", "InvalidGroup.NotFound", "security group")
}

// missing returns EC2's error for the ids without the prefix, nil if there are none.
func missing(ids []string, prefix string, code cluster.Code, kind string) error {
	var out []string
	for _, id := range ids {
		if len(id) <= len(prefix) || !strings.HasPrefix(id, prefix) {
			out = append(out, id)
		}
	}
	switch len(out) {
	case 0:
		return nil
	case 1:
		return cluster.Errorf(code, "The %s '%s' does not exist", kind, out[0])
	}
	return cluster.Errorf(code, "The %ss '%s' do not exist", kind, strings.Join(out, ", "))
}

type (
	xmlSubnet struct {
		ID    string `xml:"subnetId"`
		State string `xml:"state"`
		Owner string `xml:"ownerId"`
	}
	xmlSecurityGroup struct {
		ID    string `xml:"groupId"`
		Owner string `xml:"ownerId"`
	}
)

// describeSubnets describes the subnets named. Their networks and addresses are not simulated, so
// the answer has neither.
func (a *api) describeSubnets(ctx context.Context, in *struct{ SubnetId []string }) (any, error) {
	var out struct {
		Subnets []xmlSubnet `xml:"subnetSet>item"`
	}
	if err := (Networks{}).CheckSubnets(ctx, in.SubnetId); err != nil {
		return nil, err
	}
	for _, id := range in.SubnetId {
		out.Subnets = append(out.Subnets, xmlSubnet{id, "available", a.kernel.Account.ID})
	}
	return out, nil
}

// describeSecurityGroups describes the groups named, without rules.
func (a *api) describeSecurityGroups(ctx context.Context, in *struct{ GroupId []string }) (any, error) {
	var out struct {
		Groups []xmlSecurityGroup `xml:"securityGroupInfo>item"`
	}
	if err := (Networks{}).CheckSecurityGroups(ctx, in.GroupId); err != nil {
		return nil, err
	}
	for _, id := range in.GroupId {
		out.Groups = append(out.Groups, xmlSecurityGroup{id, a.kernel.Account.ID})
	}
	return out, nil
}
