package iam

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
	"berth/shared/sim/protocol"
)

const bucket = "instanceProfiles"

// profile is an instance profile, as stored.
type profile struct {
	Name, ID  string
	Path      string `json:",omitempty"` // / if empty
	Role      string // name; empty for none
	CreatedAt time.Time
	Tags      map[string]string `json:",omitempty"`
}

func (p *profile) StoredRow() (string, string, any) { return bucket, p.Name, p }

// Profiles are the instance profiles.
type Profiles struct {
	kernel.Table[*profile] // by name

	kernel *kernel.Kernel
}

// NewProfiles returns no instance profiles yet.
func NewProfiles(k *kernel.Kernel) *Profiles {
	return &Profiles{Table: kernel.NewTable[*profile](bucket), kernel: k}
}

// Exists reports whether there is a profile. It belongs in a step.
func (e *Profiles) Exists(name string) bool { return e.Rows[name] != nil }

// notFound is IAM's error for a profile that is not there.
func notFound(name string) error {
	return cluster.Errorf("NoSuchEntity", "Instance Profile %.128s cannot be found.", name)
}

// create adds a profile. It belongs in a step.
func (e *Profiles) create(name string, tags map[string]string, now time.Time) (*profile, error) {
	if e.Rows[name] != nil {
		return nil, cluster.Errorf("EntityAlreadyExists", "Instance Profile %.128s already exists.", name)
	}
	p := &profile{Name: name, CreatedAt: now, Tags: tags,
		ID: "AIPA" + strings.ToUpper(e.kernel.ResourceID("profile", e.kernel.NextNumber("Profiles"))[:17])}
	e.Rows[name] = p
	e.kernel.SaveRow(p)
	return p, nil
}

// addRole gives a profile its role, the only one that it can have. It belongs in a step.
func (e *Profiles) addRole(name, role string) error {
	p := e.Rows[name]
	switch {
	case p == nil:
		return notFound(name)
	case p.Role != "":
		return cluster.Errorf("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	}
	p.Role = role
	e.kernel.SaveRow(p)
	return nil
}

// remove deletes a profile that has no role. It belongs in a step.
func (e *Profiles) remove(name string) error {
	p := e.Rows[name]
	switch {
	case p == nil:
		return notFound(name)
	case p.Role != "":
		return cluster.Errorf("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	}
	delete(e.Rows, name)
	e.kernel.DeleteRow(p)
	return nil
}

// EnsureProfile makes a profile with its role. One of that name may exist.
func (e *Profiles) EnsureProfile(_ context.Context, n cluster.NewProfile) error {
	err := e.kernel.Call("CreateInstanceProfile", n.Name, func(now time.Time) error {
		_, err := e.create(n.Name, maps.Clone(n.Tags), now)
		return err
	})
	if err != nil && cluster.ErrorCode(err) != "EntityAlreadyExists" {
		return err
	}
	return e.kernel.Call("AddRoleToInstanceProfile", n.Name, func(time.Time) error {
		if p := e.Rows[n.Name]; p != nil && p.Role == n.Role {
			return nil
		}
		return e.addRole(n.Name, n.Role)
	})
}

// DeleteProfile takes the role from a profile and deletes it, if there is one.
func (e *Profiles) DeleteProfile(_ context.Context, name string) error {
	return e.kernel.Call("DeleteInstanceProfile", name, func(time.Time) error {
		p := e.Rows[name]
		if p == nil {
			return nil
		}
		p.Role = ""
		return e.remove(name)
	})
}

// QueryService returns the operations of IAM that are simulated.
func (e *Profiles) QueryService() protocol.QueryService {
	return protocol.QueryService{Namespace: "https://iam.amazonaws.com/doc/2010-05-08/",
		Actions: map[string]protocol.Action{
			"AddRoleToInstanceProfile":      protocol.StrictAction(e.addRoleToInstanceProfile),
			"CreateInstanceProfile":         protocol.StrictAction(e.createInstanceProfile),
			"DeleteInstanceProfile":         protocol.StrictAction(e.deleteInstanceProfile),
			"GetInstanceProfile":            protocol.StrictAction(e.getInstanceProfile),
			"ListInstanceProfiles":          protocol.StrictAction(e.listInstanceProfiles),
			"RemoveRoleFromInstanceProfile": protocol.StrictAction(e.removeRoleFromInstanceProfile),
		}}
}

// The answers. A role has only what its name says.
type (
	xmlTag  struct{ Key, Value string }
	xmlRole struct {
		Path, RoleName, RoleId, Arn, CreateDate string
	}
	xmlProfile struct {
		Path, InstanceProfileName, InstanceProfileId, Arn, CreateDate string
		Roles                                                         []xmlRole `xml:"Roles>member"`
		Tags                                                          []xmlTag  `xml:"Tags>member"`
	}
	xmlProfileAnswer struct{ InstanceProfile xmlProfile }
)

// describe describes a profile.
func (e *Profiles) describe(p *profile) xmlProfile {
	prefix := "arn:" + cmp.Or(e.kernel.Account.Partition, "aws") + ":iam::" + e.kernel.Account.ID + ":"
	created := protocol.FormatXMLTime(p.CreatedAt)
	path := cmp.Or(p.Path, "/")
	out := xmlProfile{Path: path, InstanceProfileName: p.Name, InstanceProfileId: p.ID,
		Arn: prefix + "instance-profile" + path + p.Name, CreateDate: created}
	if p.Role != "" {
		out.Roles = []xmlRole{{Path: "/", RoleName: p.Role, RoleId: "AROA" + p.ID[4:], Arn: prefix + "role/" + p.Role,
			CreateDate: created}}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Tags)) {
		out.Tags = append(out.Tags, xmlTag{key, p.Tags[key]})
	}
	return out
}

type nameInput struct {
	InstanceProfileName string `protocol:"required"`
}

type roleInput struct {
	InstanceProfileName string `protocol:"required"`
	RoleName            string `protocol:"required"`
}

func (e *Profiles) createInstanceProfile(_ context.Context, in *struct {
	InstanceProfileName string `protocol:"required"`
	Path                string `default:"/"`
	Tags                []struct{ Key, Value string }
}) (any, error) {
	if !rolePaths.MatchString(in.Path) {
		return nil, cluster.Errorf("ValidationError", "The specified value for path is invalid: %.64q", in.Path)
	}
	tags := map[string]string{}
	for _, t := range in.Tags {
		tags[t.Key] = t.Value
	}
	var out xmlProfileAnswer
	err := e.kernel.Call("CreateInstanceProfile", in.InstanceProfileName, func(now time.Time) error {
		p, err := e.create(in.InstanceProfileName, tags, now)
		if err == nil {
			p.Path = in.Path
			out.InstanceProfile = e.describe(p)
		}
		return err
	})
	return out, err
}

func (e *Profiles) getInstanceProfile(_ context.Context, in *nameInput) (any, error) {
	var out xmlProfileAnswer
	err := e.kernel.CallView("GetInstanceProfile", in.InstanceProfileName, func(time.Time) error {
		p := e.Rows[in.InstanceProfileName]
		if p == nil {
			return notFound(in.InstanceProfileName)
		}
		out.InstanceProfile = e.describe(p)
		return nil
	})
	return out, err
}

func (e *Profiles) addRoleToInstanceProfile(_ context.Context, in *roleInput) (any, error) {
	return nil, e.kernel.Call("AddRoleToInstanceProfile", in.InstanceProfileName, func(time.Time) error {
		return e.addRole(in.InstanceProfileName, in.RoleName)
	})
}

func (e *Profiles) removeRoleFromInstanceProfile(_ context.Context, in *roleInput) (any, error) {
	return nil, e.kernel.Call("RemoveRoleFromInstanceProfile", in.InstanceProfileName, func(time.Time) error {
		p := e.Rows[in.InstanceProfileName]
		switch {
		case p == nil:
			return notFound(in.InstanceProfileName)
		case p.Role != in.RoleName:
			return cluster.Errorf("NoSuchEntity", "The role %.64s is not in the instance profile.", in.RoleName)
		}
		p.Role = ""
		e.kernel.SaveRow(p)
		return nil
	})
}

func (e *Profiles) deleteInstanceProfile(_ context.Context, in *nameInput) (any, error) {
	return nil, e.kernel.Call("DeleteInstanceProfile", in.InstanceProfileName, func(time.Time) error {
		return e.remove(in.InstanceProfileName)
	})
}

// listInstanceProfiles lists all profiles, by name, on one page.
func (e *Profiles) listInstanceProfiles(context.Context, *struct{}) (any, error) {
	var out struct {
		InstanceProfiles []xmlProfile `xml:"InstanceProfiles>member"`
		IsTruncated      bool
	}
	err := e.kernel.CallView("ListInstanceProfiles", "", func(time.Time) error {
		for _, name := range slices.Sorted(maps.Keys(e.Rows)) {
			out.InstanceProfiles = append(out.InstanceProfiles, e.describe(e.Rows[name]))
		}
		return nil
	})
	return out, err
}
