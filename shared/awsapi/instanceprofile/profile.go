// Package instanceprofile calls IAM for the instance profiles of node groups that Berth makes. It
// is apart from package awsapi because only one function needs IAM's client. Errors are those of
// awsapi.CallError. Start at [Profiles.EnsureProfile].
package instanceprofile

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// Profiles calls IAM for instance profiles. Its methods may be repeated.
type Profiles struct {
	Client *iam.Client
}

// NewProfiles returns the instance profiles that a configuration of the SDK leads to.
func NewProfiles(c aws.Config) *Profiles { return &Profiles{Client: iam.NewFromConfig(c)} }

// noSuchEntity is IAM's code for a profile or role that does not exist.
const noSuchEntity = "NoSuchEntity"

// EnsureProfile makes an instance profile and gives it its role. A profile of that name may exist
// already, with its role or without one.
func (p *Profiles) EnsureProfile(ctx context.Context, n cluster.NewProfile) error {
	roles, err := p.rolesOf(ctx, n.Name)
	if cluster.ErrorCode(err) == noSuchEntity {
		in := &iam.CreateInstanceProfileInput{InstanceProfileName: &n.Name}
		for _, key := range slices.Sorted(maps.Keys(n.Tags)) {
			in.Tags = append(in.Tags, types.Tag{Key: &key, Value: aws.String(n.Tags[key])})
		}
		_, err = p.Client.CreateInstanceProfile(ctx, in)
		if err = awsapi.CallError(err); cluster.ErrorCode(err) == "EntityAlreadyExists" {
			roles, err = p.rolesOf(ctx, n.Name)
		}
	}
	if err != nil || slices.Contains(roles, n.Role) {
		return cluster.Wrap(err, "creating instance profile %s", n.Name)
	}
	_, err = p.Client.AddRoleToInstanceProfile(ctx,
		&iam.AddRoleToInstanceProfileInput{InstanceProfileName: &n.Name, RoleName: &n.Role})
	return awsapi.WrapCallError(err, "adding role %s to instance profile %s", n.Role, n.Name)
}

// rolesOf returns the names of a profile's roles: at most one.
func (p *Profiles) rolesOf(ctx context.Context, name string) (roles []string, err error) {
	found, err := p.Client.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	if err != nil {
		return nil, awsapi.WrapCallError(err, "reading instance profile %s", name)
	}
	for _, r := range found.InstanceProfile.Roles {
		roles = append(roles, aws.ToString(r.RoleName))
	}
	return roles, nil
}

// DeleteProfile takes the role from a profile and deletes it, if there is one.
func (p *Profiles) DeleteProfile(ctx context.Context, name string) error {
	roles, err := p.rolesOf(ctx, name)
	for _, role := range roles {
		if err == nil {
			_, err = p.Client.RemoveRoleFromInstanceProfile(ctx,
				&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
			err = awsapi.CallError(err)
		}
	}
	if err == nil {
		_, err = p.Client.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
		err = awsapi.CallError(err)
	}
	if cluster.ErrorCode(err) == noSuchEntity {
		return nil
	}
	return cluster.Wrap(err, "deleting instance profile %s", name)
}
