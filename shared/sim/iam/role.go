package iam

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
	"berth/shared/sim/protocol"
)

const roleBucket = "roles"

// role is a role, as stored. Nothing here asks what it allows.
type role struct {
	Name, ID    string
	Path        string
	Description string `json:",omitempty"`
	Trust       string // the policy that says who may assume it
	MaxSession  int    // seconds
	CreatedAt   time.Time
	Inline      map[string]string `json:",omitempty"` // policies by name
	Attached    []string          `json:",omitempty"` // ARNs of managed policies, in order of attachment
	Tags        map[string]string `json:",omitempty"`
}

func (r *role) StoredRow() (string, string, any) { return roleBucket, r.Name, r }

// Roles are the roles that tools make for machines. They are kept and described: the simulated
// services ask for no permissions. An instance profile may name a role that is none of these.
type Roles struct {
	kernel.Table[*role] // by name

	kernel   *kernel.Kernel
	profiles *Profiles
}

// NewRoles returns no roles yet.
func NewRoles(k *kernel.Kernel, profiles *Profiles) *Roles {
	return &Roles{Table: kernel.NewTable[*role](roleBucket), kernel: k, profiles: profiles}
}

// Actions returns the operations on roles that are simulated.
func (e *Roles) Actions() map[string]protocol.Action {
	return map[string]protocol.Action{
		"AttachRolePolicy":            protocol.StrictAction(e.attachPolicy),
		"CreateRole":                  protocol.StrictAction(e.createRole),
		"DeleteRole":                  protocol.StrictAction(e.deleteRole),
		"DeleteRolePolicy":            protocol.StrictAction(e.deletePolicy),
		"DetachRolePolicy":            protocol.StrictAction(e.detachPolicy),
		"GetRole":                     protocol.StrictAction(e.getRole),
		"GetRolePolicy":               protocol.StrictAction(e.getPolicy),
		"ListAttachedRolePolicies":    protocol.StrictAction(e.listAttached),
		"ListInstanceProfilesForRole": protocol.StrictAction(e.listProfiles),
		"ListRolePolicies":            protocol.StrictAction(e.listPolicies),
		"PutRolePolicy":               protocol.StrictAction(e.putPolicy),
		"TagRole":                     protocol.StrictAction(e.tagRole),
		"UntagRole":                   protocol.StrictAction(e.untagRole),
		"UpdateAssumeRolePolicy":      protocol.StrictAction(e.updateTrust),
	}
}

type (
	xmlFullRole struct {
		xmlRole
		Trust       string   `xml:"AssumeRolePolicyDocument"`
		Description string   `xml:"Description,omitempty"`
		MaxSession  int      `xml:"MaxSessionDuration"`
		Tags        []xmlTag `xml:"Tags>member"`
	}
	xmlRoleAnswer struct{ Role xmlFullRole }
	xmlAttached   struct{ PolicyName, PolicyArn string }

	roleNameInput struct {
		RoleName string `protocol:"required"`
	}
	pagedRoleInput struct {
		RoleName         string `protocol:"required"`
		Marker, MaxItems string
	}
	policyInput struct {
		RoleName   string `protocol:"required"`
		PolicyName string `protocol:"required"`
	}
	attachmentInput struct {
		RoleName  string `protocol:"required"`
		PolicyArn string `protocol:"required"`
	}
)

// escapePolicy returns a policy URL-encoded (RFC 3986), as IAM's answers have it.
func escapePolicy(document string) string {
	return strings.ReplaceAll(url.QueryEscape(document), "+", "%20")
}

// describe describes a role.
func (e *Roles) describe(r *role) xmlFullRole {
	out := xmlFullRole{
		xmlRole: xmlRole{Path: r.Path, RoleName: r.Name, RoleId: r.ID, CreateDate: protocol.FormatXMLTime(r.CreatedAt),
			Arn: "arn:" + cmp.Or(e.kernel.Account.Partition,
				"aws") + ":iam::" + e.kernel.Account.ID + ":role" + r.Path +
				r.Name},
		Trust: escapePolicy(r.Trust), Description: r.Description, MaxSession: r.MaxSession,
	}
	for _, key := range slices.Sorted(maps.Keys(r.Tags)) {
		out.Tags = append(out.Tags, xmlTag{key, r.Tags[key]})
	}
	return out
}

// findRole returns a role, or IAM's error for one that is not there. It belongs in a step.
func (e *Roles) findRole(name string) (*role, error) {
	if r := e.Rows[name]; r != nil {
		return r, nil
	}
	return nil, cluster.Errorf("NoSuchEntity", "The role with name %.64s cannot be found.", name)
}

// changeRole runs a step that changes a role.
func (e *Roles) changeRole(name string, step func(r *role) error) error {
	return e.kernel.Change(func(time.Time) error {
		r, err := e.findRole(name)
		if err == nil {
			err = step(r)
		}
		if err == nil {
			e.kernel.SaveRow(r)
		}
		return err
	})
}

// viewRole runs a step that reads a role.
func (e *Roles) viewRole(name string, step func(r *role) error) error {
	return e.kernel.View(func(time.Time) error {
		r, err := e.findRole(name)
		if err == nil {
			err = step(r)
		}
		return err
	})
}

// checkPolicy returns IAM's error for a policy that is no JSON.
func checkPolicy(document string) error {
	if json.Valid([]byte(document)) {
		return nil
	}
	return cluster.Errorf("MalformedPolicyDocument", "This policy contains invalid Json")
}

var (
	roleNames = regexp.MustCompile(`^[\w+=,.@-]{1,64}$`)
	rolePaths = regexp.MustCompile(`^/([!-~]+/)?$`)
)

func (e *Roles) createRole(_ context.Context, in *struct {
	RoleName                 string `protocol:"required"`
	AssumeRolePolicyDocument string `protocol:"required"`
	Path                     string `default:"/"`
	MaxSessionDuration       int    `default:"3600"`
	Description              string
	Tags                     []struct{ Key, Value string }
}) (any, error) {
	r := &role{Name: in.RoleName, Path: in.Path, Description: in.Description, Trust: in.AssumeRolePolicyDocument,
		MaxSession: in.MaxSessionDuration, Inline: map[string]string{}, Tags: map[string]string{}}
	for _, t := range in.Tags {
		r.Tags[t.Key] = t.Value
	}
	switch {
	case !roleNames.MatchString(r.Name) || !rolePaths.MatchString(r.Path):
		return nil, cluster.Errorf("ValidationError",
			"The specified value for roleName or path is invalid: %.64q, %.64q",
			r.Name, r.Path)
	case r.MaxSession < 3600 || r.MaxSession > 43200:
		return nil, cluster.Errorf("ValidationError",
			"Value '%d' at 'maxSessionDuration' failed to satisfy constraint: 3600 to 43200", r.MaxSession)
	}
	if err := checkPolicy(r.Trust); err != nil {
		return nil, err
	}
	var out xmlRoleAnswer
	err := e.kernel.Change(func(now time.Time) error {
		if e.Rows[r.Name] != nil {
			return cluster.Errorf("EntityAlreadyExists", "Role with name %s already exists.", r.Name)
		}
		r.CreatedAt = now
		r.ID = "AROA" + strings.ToUpper(e.kernel.ResourceID("role", e.kernel.NextNumber("Roles"))[:17])
		e.Rows[r.Name] = r
		e.kernel.SaveRow(r)
		out.Role = e.describe(r)
		return nil
	})
	return out, err
}

func (e *Roles) getRole(_ context.Context, in *roleNameInput) (any, error) {
	var out xmlRoleAnswer
	err := e.viewRole(in.RoleName, func(r *role) error {
		out.Role = e.describe(r)
		return nil
	})
	return out, err
}

// deleteRole refuses a role that is in use, as IAM does.
func (e *Roles) deleteRole(_ context.Context, in *roleNameInput) (any, error) {
	return nil, e.kernel.Change(func(time.Time) error {
		r, err := e.findRole(in.RoleName)
		switch {
		case err != nil:
			return err
		case len(e.profilesOf(r.Name)) > 0:
			return cluster.Errorf("DeleteConflict",
				"Cannot delete entity, must remove roles from instance profile first.")
		case len(r.Attached) > 0:
			return cluster.Errorf("DeleteConflict", "Cannot delete entity, must detach all policies first.")
		case len(r.Inline) > 0:
			return cluster.Errorf("DeleteConflict", "Cannot delete entity, must delete policies first.")
		}
		delete(e.Rows, r.Name)
		e.kernel.DeleteRow(r)
		return nil
	})
}

func (e *Roles) updateTrust(_ context.Context, in *struct {
	RoleName       string `protocol:"required"`
	PolicyDocument string `protocol:"required"`
}) (any, error) {
	if err := checkPolicy(in.PolicyDocument); err != nil {
		return nil, err
	}
	return nil, e.changeRole(in.RoleName, func(r *role) error {
		r.Trust = in.PolicyDocument
		return nil
	})
}

func (e *Roles) tagRole(_ context.Context, in *struct {
	RoleName string `protocol:"required"`
	Tags     []struct{ Key, Value string }
}) (any, error) {
	return nil, e.changeRole(in.RoleName, func(r *role) error {
		if r.Tags == nil {
			r.Tags = map[string]string{}
		}
		for _, t := range in.Tags {
			r.Tags[t.Key] = t.Value
		}
		return nil
	})
}

func (e *Roles) untagRole(_ context.Context, in *struct {
	RoleName string `protocol:"required"`
	TagKeys  []string
}) (any, error) {
	return nil, e.changeRole(in.RoleName, func(r *role) error {
		for _, key := range in.TagKeys {
			delete(r.Tags, key)
		}
		return nil
	})
}
