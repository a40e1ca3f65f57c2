package fleet

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
)

// launchTemplate is an EC2 launch template, as stored: its versions from 1, of which only the image counts.
type launchTemplate struct {
	ID, Name string
	Versions []templateVersion
}

type templateVersion struct{ Image, Description string }

func (t *launchTemplate) row() (string, string, any) { return bucketTemplates, t.ID, t }

func (t *launchTemplate) version(n int64) *cluster.LaunchTemplate {
	return &cluster.LaunchTemplate{ID: t.ID, Name: t.Name, Version: n, Image: t.Versions[n-1].Image}
}

// failedLaunches is how many failed launches of a group are remembered.
const failedLaunches = 20

// AddTemplate makes a launch template with one version, and returns its id.
func (f *Fleet) AddTemplate(name, image string) (id string, err error) {
	err = f.change(func(time.Time) error {
		if t, _ := f.template(cluster.TemplateRef{Name: name}); name == "" || t != nil {
			return cluster.Errorf("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name %.128q is already in use, or empty", name)
		}
		id = f.addTemplate(name, image).ID
		return nil
	})
	return id, err
}

// DeleteTemplate takes a launch template away: groups that use it launch nothing any more.
func (f *Fleet) DeleteTemplate(id string) error {
	return f.change(func(time.Time) error {
		t, err := f.template(cluster.TemplateRef{ID: id})
		if err == nil {
			delete(f.templates, id)
			f.forget(t)
		}
		return err
	})
}

func (f *Fleet) addTemplate(name, image string) *launchTemplate {
	t := &launchTemplate{ID: "lt-" + cluster.Digest("template", name)[:17], Name: name, Versions: []templateVersion{{Image: image}}}
	f.templates[t.ID] = t
	f.touch(t)
	return t
}

// template is the one named, by id or by name.
func (f *Fleet) template(ref cluster.TemplateRef) (*launchTemplate, error) {
	for _, t := range f.templates {
		if ref.ID == t.ID || ref.ID == "" && ref.Name == t.Name {
			return t, nil
		}
	}
	if ref.ID != "" {
		return nil, cluster.Errorf("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %.64s, does not exist.", ref.ID)
	}
	return nil, cluster.Errorf("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %.128s, does not exist.", ref.Name)
}

// at is one version of the template named; $Default is always the first, as nobody sets another.
func (f *Fleet) templateAt(ref cluster.TemplateRef) (*cluster.LaunchTemplate, error) {
	t, err := f.template(ref)
	if err != nil {
		return nil, err
	}
	n := int64(1)
	switch ref.Version {
	case "", "$Default":
	case "$Latest":
		n = int64(len(t.Versions))
	default:
		if n, err = strconv.ParseInt(ref.Version, 10, 64); err != nil || n < 1 || n > int64(len(t.Versions)) {
			return nil, cluster.Errorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %.20s of launch template %s.", ref.Version, t.ID)
		}
	}
	return t.version(n), nil
}

// LaunchTemplate is one version of a launch template.
func (f *Fleet) LaunchTemplate(_ context.Context, ref cluster.TemplateRef) (out *cluster.LaunchTemplate, err error) {
	if proceed, err := f.faulty("DescribeLaunchTemplateVersions", ref.ID+ref.Name, func() error { return nil }); !proceed {
		return nil, err
	}
	err = f.look(func(time.Time) error {
		out, err = f.templateAt(ref)
		return err
	})
	return out, err
}

// FindVersion is the newest version of a template with a description; nil where there is none.
func (f *Fleet) FindVersion(_ context.Context, id, description string) (out *cluster.LaunchTemplate, err error) {
	if proceed, err := f.faulty("DescribeLaunchTemplateVersions", id, func() error { return nil }); !proceed {
		return nil, err
	}
	err = f.look(func(time.Time) error {
		t, err := f.template(cluster.TemplateRef{ID: id})
		if err != nil {
			return err
		}
		for k, v := range slices.Backward(t.Versions) {
			if v.Description == description {
				out = t.version(int64(k + 1))
				break
			}
		}
		return nil
	})
	return out, err
}

// CreateVersion makes a version of a template, like another but for the image.
func (f *Fleet) CreateVersion(_ context.Context, v cluster.NewTemplateVersion) (out *cluster.LaunchTemplate, err error) {
	apply := func() error {
		return f.change(func(time.Time) error {
			t, err := f.template(cluster.TemplateRef{ID: v.Template})
			if err != nil {
				return err
			}
			if _, err := f.templateAt(v.From); err != nil {
				return err
			}
			t.Versions = append(t.Versions, templateVersion{Image: v.Image, Description: v.Description})
			f.touch(t)
			out = t.version(int64(len(t.Versions)))
			return nil
		})
	}
	if proceed, err := f.faulty("CreateLaunchTemplateVersion", v.Template, apply); !proceed {
		return nil, err
	}
	err = apply()
	return out, err
}

// SetSizes sets minimum, maximum and desired capacity of a group at once.
func (f *Fleet) SetSizes(_ context.Context, name string, s cluster.Sizes) error {
	return f.onGroup("UpdateAutoScalingGroup", name, func(g *group, _ time.Time) error {
		if s.Min < 0 || s.Desired < s.Min || s.Max < s.Desired {
			return cluster.Errorf("ValidationError", "Desired capacity %d must be between the specified min size %d and max size %d", s.Desired, s.Min, s.Max)
		}
		g.Min, g.Max, g.Desired = s.Min, s.Max, s.Desired
		return nil
	})
}

// UseTemplate has a group launch from a launch template version.
func (f *Fleet) UseTemplate(_ context.Context, name, template string) error {
	return f.onGroup("UpdateAutoScalingGroup", name, func(g *group, _ time.Time) error {
		id, version, _ := strings.Cut(template, ":")
		t, err := f.templateAt(cluster.TemplateRef{ID: id, Version: version})
		if err != nil {
			return cluster.Errorf("ValidationError", "You must use a valid fully-formed launch template. %s", err)
		}
		g.Template = t.String()
		return nil
	})
}

// FailedLaunches are those of a group since a time, the newest first.
func (f *Fleet) FailedLaunches(_ context.Context, name string, since time.Time) (out []cluster.FailedLaunch, err error) {
	if proceed, err := f.faulty("DescribeScalingActivities", name, func() error { return nil }); !proceed {
		return nil, err
	}
	err = f.look(func(time.Time) error {
		g := f.groups[name]
		if g == nil {
			return cluster.Errorf("ValidationError", "AutoScalingGroup name not found - %.255s", name)
		}
		for _, l := range slices.Backward(g.Failed) {
			if !l.At.Before(since) {
				out = append(out, l)
			}
		}
		return nil
	})
	return out, err
}

// failed remembers a launch that failed.
func (g *group) failed(now time.Time, reason string) {
	l := cluster.LaunchFailure(reason)
	l.At = now
	g.Failed = append(g.Failed, l)
	g.Failed = g.Failed[max(0, len(g.Failed)-failedLaunches):]
}
