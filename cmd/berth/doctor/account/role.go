package account

import (
	"context"
	"net/url"
	"strings"

	"berth/cmd/berth/doctor"
)

// readRoles reads what the functions' roles allow.
func (r *reader) readRoles(ctx context.Context, f *doctor.Facts) {
	f.Roles = readEach(f, f.Plan.Roles, func(_, name string) (doctor.Role, error) { return r.readRole(ctx, name) })
}

// readRole reads the policies of a role, its own and the attached ones.
func (r *services) readRole(ctx context.Context, name string) (role doctor.Role, err error) {
	in := map[string]string{"RoleName": name}
	var described struct {
		Boundary string `xml:"GetRoleResult>Role>PermissionsBoundary>PermissionsBoundaryArn"`
	}
	if err := r.callForm(ctx, iam, "GetRole", in, &described); err != nil {
		return role, err
	}
	role.Boundary = described.Boundary
	var own struct {
		Names []string `xml:"ListRolePoliciesResult>PolicyNames>member"`
	}
	if err := r.callForm(ctx, iam, "ListRolePolicies", in, &own); err != nil {
		return role, err
	}
	for _, policy := range own.Names {
		var out struct {
			Document string `xml:"GetRolePolicyResult>PolicyDocument"`
		}
		if err := r.callForm(ctx, iam, "GetRolePolicy", map[string]string{"RoleName": name, "PolicyName": policy},
			&out); err != nil {
			return role, err
		}
		if err := addPolicy(&role, out.Document); err != nil {
			return role, err
		}
	}
	return role, r.addAttached(ctx, in, &role)
}

// addPolicy adds a policy document, which IAM encodes as a URL does.
func addPolicy(role *doctor.Role, document string) error {
	if strings.HasPrefix(document, "%7B") {
		plain, err := url.QueryUnescape(document)
		if err != nil {
			return err
		}
		document = plain
	}
	p, err := doctor.ParsePolicy(document)
	role.Policies = append(role.Policies, p)
	return err
}

// addAttached adds the attached policies. A role has 20 of them at most, which is one page.
func (r *services) addAttached(ctx context.Context, in map[string]string, role *doctor.Role) error {
	var attached struct {
		ARNs []string `xml:"ListAttachedRolePoliciesResult>AttachedPolicies>member>PolicyArn"`
	}
	if err := r.callForm(ctx, iam, "ListAttachedRolePolicies", in, &attached); err != nil {
		return err
	}
	for _, arn := range attached.ARNs {
		if strings.Contains(arn, ":iam::aws:policy/") {
			role.Managed = append(role.Managed, arn)
		}
		var policy struct {
			Version string `xml:"GetPolicyResult>Policy>DefaultVersionId"`
		}
		if err := r.callForm(ctx, iam, "GetPolicy", map[string]string{"PolicyArn": arn}, &policy); err != nil {
			return err
		}
		var out struct {
			Document string `xml:"GetPolicyVersionResult>PolicyVersion>Document"`
		}
		if err := r.callForm(ctx, iam, "GetPolicyVersion",
			map[string]string{"PolicyArn": arn, "VersionId": policy.Version}, &out); err != nil {
			return err
		}
		if err := addPolicy(role, out.Document); err != nil {
			return err
		}
	}
	return nil
}
