package iam

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
)

// attachPolicy attaches a managed policy once. Which policies exist is not known here.
func (e *Roles) attachPolicy(_ context.Context, in *attachmentInput) (any, error) {
	return nil, e.changeRole(in.RoleName, func(r *role) error {
		if !strings.HasPrefix(in.PolicyArn, "arn:") || !strings.Contains(in.PolicyArn, ":policy/") {
			return cluster.Errorf("InvalidInput", "ARN %.128s is not valid.", in.PolicyArn)
		}
		if !slices.Contains(r.Attached, in.PolicyArn) {
			r.Attached = append(r.Attached, in.PolicyArn)
		}
		return nil
	})
}

func (e *Roles) detachPolicy(_ context.Context, in *attachmentInput) (any, error) {
	return nil, e.changeRole(in.RoleName, func(r *role) error {
		at := slices.Index(r.Attached, in.PolicyArn)
		if at < 0 {
			return cluster.Errorf("NoSuchEntity", "Policy %.128s was not found.", in.PolicyArn)
		}
		r.Attached = slices.Delete(r.Attached, at, at+1)
		return nil
	})
}

// listAttached lists all in one page: IAM allows few.
func (e *Roles) listAttached(_ context.Context, in *pagedRoleInput) (any, error) {
	var out struct {
		Policies    []xmlAttached `xml:"AttachedPolicies>member"`
		IsTruncated bool
	}
	err := e.viewRole(in.RoleName, func(r *role) error {
		for _, arn := range r.Attached {
			out.Policies = append(out.Policies, xmlAttached{cluster.LastPart(arn), arn})
		}
		return nil
	})
	return out, err
}

func (e *Roles) putPolicy(_ context.Context, in *struct {
	RoleName       string `protocol:"required"`
	PolicyName     string `protocol:"required"`
	PolicyDocument string `protocol:"required"`
}) (any, error) {
	if err := checkPolicy(in.PolicyDocument); err != nil {
		return nil, err
	}
	return nil, e.changeRole(in.RoleName, func(r *role) error {
		if r.Inline == nil {
			r.Inline = map[string]string{}
		}
		r.Inline[in.PolicyName] = in.PolicyDocument
		return nil
	})
}

// missingPolicy is IAM's error for an inline policy that is not there.
func missingPolicy(name string) error {
	return cluster.Errorf("NoSuchEntity", "The role policy with name %.128s cannot be found.", name)
}

func (e *Roles) getPolicy(_ context.Context, in *policyInput) (any, error) {
	var out struct{ RoleName, PolicyName, PolicyDocument string }
	err := e.viewRole(in.RoleName, func(r *role) error {
		document, known := r.Inline[in.PolicyName]
		if !known {
			return missingPolicy(in.PolicyName)
		}
		out.RoleName, out.PolicyName, out.PolicyDocument = r.Name, in.PolicyName, escapePolicy(document)
		return nil
	})
	return out, err
}

func (e *Roles) deletePolicy(_ context.Context, in *policyInput) (any, error) {
	return nil, e.changeRole(in.RoleName, func(r *role) error {
		if _, known := r.Inline[in.PolicyName]; !known {
			return missingPolicy(in.PolicyName)
		}
		delete(r.Inline, in.PolicyName)
		return nil
	})
}

func (e *Roles) listPolicies(_ context.Context, in *pagedRoleInput) (any, error) {
	var out struct {
		Names       []string `xml:"PolicyNames>member"`
		IsTruncated bool
	}
	err := e.viewRole(in.RoleName, func(r *role) error {
		out.Names = slices.Sorted(maps.Keys(r.Inline))
		return nil
	})
	return out, err
}

// profilesOf returns the instance profiles that have a role, by name. It belongs in a step.
func (e *Roles) profilesOf(name string) (profiles []*profile) {
	for _, key := range slices.Sorted(maps.Keys(e.profiles.Rows)) {
		if p := e.profiles.Rows[key]; p.Role == name {
			profiles = append(profiles, p)
		}
	}
	return profiles
}

func (e *Roles) listProfiles(_ context.Context, in *pagedRoleInput) (any, error) {
	var out struct {
		Profiles    []xmlProfile `xml:"InstanceProfiles>member"`
		IsTruncated bool
	}
	err := e.viewRole(in.RoleName, func(r *role) error {
		for _, p := range e.profilesOf(r.Name) {
			out.Profiles = append(out.Profiles, e.profiles.describe(p))
		}
		return nil
	})
	return out, err
}
