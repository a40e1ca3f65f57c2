package ec2

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
	"berth/shared/sim/protocol"
)

// QueryService returns the operations of EC2 that are simulated.
func (e *Templates) QueryService() protocol.QueryService {
	a := &api{e.kernel, e}
	return protocol.QueryService{Namespace: "http://ec2.amazonaws.com/doc/2016-11-15/", Plain: true,
		Actions: map[string]protocol.Action{
			"CreateLaunchTemplate":           protocol.StrictAction(a.createLaunchTemplate),
			"CreateLaunchTemplateVersion":    protocol.StrictAction(a.createLaunchTemplateVersion),
			"CreateTags":                     protocol.StrictAction(a.createTags),
			"DeleteLaunchTemplate":           protocol.StrictAction(a.deleteLaunchTemplate),
			"DeleteTags":                     protocol.StrictAction(a.deleteTags),
			"DescribeImages":                 protocol.StrictAction(describeImages),
			"DescribeInstanceTypes":          protocol.StrictAction(a.describeInstanceTypes),
			"DescribeLaunchTemplateVersions": protocol.StrictAction(a.describeLaunchTemplateVersions),
			"DescribeLaunchTemplates":        protocol.StrictAction(a.describeLaunchTemplates),
			"DescribeSecurityGroups":         protocol.StrictAction(a.describeSecurityGroups),
			"DescribeSubnets":                protocol.StrictAction(a.describeSubnets),
			"GetInstanceTypesFromInstanceRequirements": protocol.StrictAction(
				a.getInstanceTypesFromInstanceRequirements),
			"ModifyLaunchTemplate": protocol.StrictAction(a.modifyLaunchTemplate),
		}}
}

// api answers calls of the Query protocol.
type api struct {
	kernel    *kernel.Kernel
	templates *Templates
}

// The answers. EC2's names are in lower camel case, and its lists are sets of items.
type (
	xmlLaunchTemplate struct {
		ID      string   `xml:"launchTemplateId"`
		Name    string   `xml:"launchTemplateName"`
		Created string   `xml:"createTime"`
		By      string   `xml:"createdBy"`
		Default int64    `xml:"defaultVersionNumber"`
		Latest  int64    `xml:"latestVersionNumber"`
		Tags    []xmlTag `xml:"tagSet>item"`
	}
	xmlTag struct {
		Key   string `xml:"key"`
		Value string `xml:"value"`
	}
	xmlTemplateVersion struct {
		ID          string `xml:"launchTemplateId"`
		Name        string `xml:"launchTemplateName"`
		Number      int64  `xml:"versionNumber"`
		Description string `xml:"versionDescription,omitempty"`
		Created     string `xml:"createTime"`
		By          string `xml:"createdBy"`
		Default     bool   `xml:"defaultVersion"`
		Data        xmlData
	}
	// xmlData is launch template data in an answer.
	xmlData struct{ Data }
)

// MarshalXML writes the data by EC2's rules: names in lower camel case, lists as NAMESet of items.
func (d xmlData) MarshalXML(e *xml.Encoder, _ xml.StartElement) error {
	return encodeData(e, "launchTemplateData", map[string]any(d.Data))
}

// listNames has the lists that have another name in answers than in requests: a request's
// LicenseSpecification.1 is an item of an answer's licenseSet.
var listNames = map[string]string{"LicenseSpecification": "license", "NetworkInterface.SecurityGroupId": "group",
	"Ipv4Prefix": "ipv4Prefix"}

// encodeData writes one member. Example: {"SecurityGroupId": ["sg-1"]} becomes
// <securityGroupIdSet><item>sg-1</item></securityGroupIdSet>.
func encodeData(e *xml.Encoder, name string, v any) error {
	start := xml.StartElement{Name: xml.Name{Local: name}}
	switch x := v.(type) {
	case string:
		return e.EncodeElement(x, start)
	case []any:
		start.Name.Local += "Set"
		return encodeElement(e, start, func() error {
			for _, item := range x {
				if err := encodeData(e, "item", item); err != nil {
					return err
				}
			}
			return nil
		})
	case map[string]any:
		return encodeElement(e, start, func() error {
			for _, key := range slices.Sorted(maps.Keys(x)) {
				known := key
				if name == "item" && key == "SecurityGroupId" {
					known = "NetworkInterface.SecurityGroupId"
				}
				if err := encodeData(e, cmp.Or(listNames[known], strings.ToLower(key[:1])+key[1:]),
					x[key]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return fmt.Errorf("launch template data %s is a %T", name, v)
}

// encodeElement writes an element around what inside writes.
func encodeElement(e *xml.Encoder, start xml.StartElement, inside func() error) error {
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	if err := inside(); err != nil {
		return err
	}
	return e.EncodeToken(start.End())
}

// readData returns launch template data, or the error that EC2 gives: for a member that it does not
// know, and for user data.
func readData(tree protocol.Tree) (Data, error) {
	d := Data(tree)
	return d, d.checkMembers()
}

// describeTemplate has no data: that is the versions'.
func (t *launchTemplate) describeTemplate() xmlLaunchTemplate {
	out := xmlLaunchTemplate{
		ID: t.ID, Name: t.Name, Created: protocol.FormatXMLTime(t.CreatedAt), By: "fleet", Default: t.Default,
		Latest: int64(len(t.Versions)),
	}
	for _, key := range slices.Sorted(maps.Keys(t.Tags)) {
		out.Tags = append(out.Tags, xmlTag{key, t.Tags[key]})
	}
	return out
}

func (t *launchTemplate) describeVersion(n int64) xmlTemplateVersion {
	v := t.Versions[n-1]
	return xmlTemplateVersion{
		ID: t.ID, Name: t.Name, Number: n, Description: v.Description, Created: protocol.FormatXMLTime(v.CreatedAt),
		By: "fleet", Default: n == t.Default,
		Data: xmlData{v.Data},
	}
}

type xmlTemplateAnswer struct {
	Template *xmlLaunchTemplate  `xml:"launchTemplate"`
	Version  *xmlTemplateVersion `xml:"launchTemplateVersion"`
}

// createLaunchTemplate takes the tags of the first TagSpecification. Only templates can be tagged
// in this call, so there is no other.
func (a *api) createLaunchTemplate(_ context.Context, in *struct {
	LaunchTemplateName, VersionDescription, ClientToken string
	LaunchTemplateData                                  protocol.Tree
	TagSpecification                                    []struct {
		ResourceType string
		Tag          []struct{ Key, Value string }
	}
}) (any, error) {
	d, err := readData(in.LaunchTemplateData)
	if err != nil {
		return nil, err
	}
	if len(d) == 0 {
		return nil, cluster.Errorf("MissingParameter", "The request must contain the parameter LaunchTemplateData")
	}
	tags := map[string]string{}
	for _, specification := range in.TagSpecification[:min(1, len(in.TagSpecification))] {
		for _, t := range specification.Tag {
			tags[t.Key] = t.Value
		}
	}
	var out xmlTemplateAnswer
	err = a.kernel.Change(func(now time.Time) error {
		if err := a.templates.checkNewName(in.LaunchTemplateName); err != nil {
			return err
		}
		t := a.templates.addTemplate(in.LaunchTemplateName,
			templateVersion{Description: in.VersionDescription, Data: d}, now)
		t.Tags = tags
		out.Template = new(t.describeTemplate())
		return nil
	})
	return out, err
}

// createLaunchTemplateVersion takes what the input leaves out from the source version, if it names
// one.
func (a *api) createLaunchTemplateVersion(_ context.Context, in *struct {
	LaunchTemplateId, LaunchTemplateName, SourceVersion, VersionDescription, ClientToken string
	LaunchTemplateData                                                                   protocol.Tree
}) (any, error) {
	d, err := readData(in.LaunchTemplateData)
	if err != nil {
		return nil, err
	}
	ref := cluster.TemplateRef{ID: in.LaunchTemplateId, Name: in.LaunchTemplateName}
	var out xmlTemplateAnswer
	err = a.kernel.Call("CreateLaunchTemplateVersion", ref.ID+ref.Name, func(now time.Time) error {
		if in.SourceVersion != "" {
			source, n, err := a.templates.resolveVersion(cluster.TemplateRef{ID: ref.ID, Name: ref.Name,
				Version: in.SourceVersion})
			if err != nil {
				return err
			}
			d = source.Versions[n-1].Data.withMembers(d)
		}
		t, err := a.templates.addVersion(ref, templateVersion{Description: in.VersionDescription, Data: d}, now)
		if err == nil {
			out.Version = new(t.describeVersion(int64(len(t.Versions))))
		}
		return err
	})
	return out, err
}

// modifyLaunchTemplate sets the default version, the one thing that can change about a template.
// Groups on $Default launch from it from now on.
func (a *api) modifyLaunchTemplate(_ context.Context, in *struct {
	LaunchTemplateId, LaunchTemplateName, SetDefaultVersion, ClientToken string
}) (any, error) {
	var out xmlTemplateAnswer
	err := a.kernel.Change(func(time.Time) error {
		t, n, err := a.templates.resolveVersion(cluster.TemplateRef{ID: in.LaunchTemplateId,
			Name: in.LaunchTemplateName, Version: in.SetDefaultVersion})
		if err == nil {
			t.Default = n
			a.kernel.SaveRow(t)
			out.Template = new(t.describeTemplate())
		}
		return err
	})
	return out, err
}

// deleteLaunchTemplate deletes the template with all versions. Groups that use it fail to launch
// from now on, as on EC2.
func (a *api) deleteLaunchTemplate(
	_ context.Context, in *struct{ LaunchTemplateId, LaunchTemplateName string },
) (any, error) {
	var out xmlTemplateAnswer
	err := a.kernel.Change(func(time.Time) error {
		t, err := a.templates.findTemplate(cluster.TemplateRef{ID: in.LaunchTemplateId, Name: in.LaunchTemplateName})
		if err == nil {
			a.templates.remove(t)
			out.Template = new(t.describeTemplate())
		}
		return err
	})
	return out, err
}

// describeLaunchTemplates fails if any of the templates named does not exist. Without names it
// lists all, by name.
func (a *api) describeLaunchTemplates(_ context.Context, in *struct {
	LaunchTemplateId, LaunchTemplateName []string
	MaxResults                           int `default:"200"`
	NextToken                            string
}) (any, error) {
	var refs []cluster.TemplateRef
	for _, id := range in.LaunchTemplateId {
		refs = append(refs, cluster.TemplateRef{ID: id})
	}
	for _, name := range in.LaunchTemplateName {
		refs = append(refs, cluster.TemplateRef{Name: name})
	}
	var all []xmlLaunchTemplate
	err := a.kernel.View(func(time.Time) error {
		for _, ref := range refs {
			t, err := a.templates.findTemplate(ref)
			if err != nil {
				return err
			}
			all = append(all, t.describeTemplate())
		}
		if len(refs) == 0 {
			for _, t := range a.templates.Rows {
				all = append(all, t.describeTemplate())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b xmlLaunchTemplate) int { return cmp.Compare(a.Name, b.Name) })
	var out struct {
		Templates []xmlLaunchTemplate `xml:"launchTemplates>item"`
		Next      string              `xml:"nextToken,omitempty"`
	}
	out.Templates, out.Next, err = protocol.PageOf(all, in.NextToken, in.MaxResults, 200)
	return out, err
}

// describeLaunchTemplateVersions answers with the versions asked for, or with all, the newest
// first.
func (a *api) describeLaunchTemplateVersions(_ context.Context, in *struct {
	LaunchTemplateId, LaunchTemplateName string
	LaunchTemplateVersion                []string
	MaxResults                           int `default:"200"`
	NextToken                            string
}) (any, error) {
	ref := cluster.TemplateRef{ID: in.LaunchTemplateId, Name: in.LaunchTemplateName}
	var all []xmlTemplateVersion
	err := a.kernel.CallView("DescribeLaunchTemplateVersions", ref.ID+ref.Name, func(time.Time) error {
		for _, version := range in.LaunchTemplateVersion {
			t, n, err := a.templates.resolveVersion(cluster.TemplateRef{ID: ref.ID, Name: ref.Name, Version: version})
			if err != nil {
				return err
			}
			all = append(all, t.describeVersion(n))
		}
		if len(in.LaunchTemplateVersion) > 0 {
			return nil
		}
		t, err := a.templates.findTemplate(ref)
		if err != nil {
			return err
		}
		for n := len(t.Versions); n > 0; n-- {
			all = append(all, t.describeVersion(int64(n)))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out struct {
		Versions []xmlTemplateVersion `xml:"launchTemplateVersionSet>item"`
		Next     string               `xml:"nextToken,omitempty"`
	}
	out.Versions, out.Next, err = protocol.PageOf(all, in.NextToken, in.MaxResults, 200)
	return out, err
}

// DefaultImage is the image of machines that no launch template describes.
const DefaultImage = "ami-0be47000000000001"

// images are those that DescribeImages knows, by name. A launch template can have any other by its
// id.
var images = map[string]string{
	"berth-ecs-1": DefaultImage, "berth-ecs-2": "ami-0be47000000000002", "berth-ecs-3": "ami-0be47000000000003",
}

// describeImages finds images by id or by name. Whose they are does not matter: all are Amazon's.
func describeImages(_ context.Context, in *struct {
	ImageId, Owner []string
	Filter         []struct {
		Name  string
		Value []string
	}
	MaxResults, NextToken string
}) (any, error) {
	type image struct {
		ID    string `xml:"imageId"`
		Name  string `xml:"name"`
		State string `xml:"imageState"`
	}
	var out struct {
		Images []image `xml:"imagesSet>item"`
	}
	var names []string
	for n, filter := range in.Filter {
		if n > 0 || filter.Name != "name" {
			return nil, cluster.Errorf("InvalidParameterValue",
				"The simulated AWS knows images by the filter name alone")
		}
		names = filter.Value
	}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		if (len(in.ImageId) == 0 || slices.Contains(in.ImageId, images[name])) &&
			(len(names) == 0 || slices.Contains(names, name)) {
			out.Images = append(out.Images, image{images[name], name, "available"})
		}
	}
	return out, nil
}
