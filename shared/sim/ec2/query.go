package ec2

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// Query returns the operations of EC2 that are simulated.
func (e *Templates) Query() protocol.QueryService {
	return protocol.QueryService{Namespace: "http://ec2.amazonaws.com/doc/2016-11-15/", Plain: true, Actions: map[string]protocol.Action{
		"CreateLaunchTemplate":           e.createLaunchTemplate,
		"CreateLaunchTemplateVersion":    e.createLaunchTemplateVersion,
		"DeleteLaunchTemplate":           e.deleteLaunchTemplate,
		"DescribeImages":                 describeImages,
		"DescribeLaunchTemplateVersions": e.describeLaunchTemplateVersions,
		"DescribeLaunchTemplates":        e.describeLaunchTemplates,
		"ModifyLaunchTemplate":           e.modifyLaunchTemplate,
	}}
}

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
	// xmlData are launch template data as answers have them.
	xmlData struct{ Data }
)

// MarshalXML writes the data by EC2's rules: names in lower camel case, lists as NAMESet of items.
func (d xmlData) MarshalXML(e *xml.Encoder, _ xml.StartElement) error {
	return encodeData(e, "launchTemplateData", map[string]any(d.Data))
}

// listNames are the lists that answers call otherwise than requests do.
var listNames = map[string]string{"LicenseSpecification": "license", "NetworkInterface.SecurityGroupId": "group", "Ipv4Prefix": "ipv4Prefix"}

func encodeData(e *xml.Encoder, name string, v any) error {
	start := xml.StartElement{Name: xml.Name{Local: name}}
	switch x := v.(type) {
	case string:
		return e.EncodeElement(x, start)
	case []any:
		start.Name.Local += "Set"
		return element(e, start, func() error {
			for _, item := range x {
				if err := encodeData(e, "item", item); err != nil {
					return err
				}
			}
			return nil
		})
	case map[string]any:
		return element(e, start, func() error {
			for _, key := range slices.Sorted(maps.Keys(x)) {
				known := key
				if name == "item" && key == "SecurityGroupId" {
					known = "NetworkInterface.SecurityGroupId"
				}
				if err := encodeData(e, cmp.Or(listNames[known], strings.ToLower(key[:1])+key[1:]), x[key]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return fmt.Errorf("launch template data %s is a %T", name, v)
}

func element(e *xml.Encoder, start xml.StartElement, inside func() error) error {
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	if err := inside(); err != nil {
		return err
	}
	return e.EncodeToken(start.End())
}

// formData are the members of a form below PREFIX: PREFIX.Name, PREFIX.List.1, PREFIX.List.1.Name and so on.
func formData(form url.Values, prefix string) (Data, error) {
	root := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(form)) {
		path, ok := strings.CutPrefix(key, prefix+".")
		if !ok {
			continue
		}
		at, parts := root, strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			below, ok := at[part].(map[string]any)
			if !ok {
				if at[part] != nil {
					return nil, cluster.Errorf("InvalidParameterCombination", "%.128s is a value and a structure", key)
				}
				below = map[string]any{}
				at[part] = below
			}
			at = below
		}
		if last := parts[len(parts)-1]; last == "" || at[last] != nil {
			return nil, cluster.Errorf("InvalidParameterCombination", "%.128s is a value and a structure", key)
		}
		at[parts[len(parts)-1]] = form.Get(key)
	}
	for name, v := range root {
		root[name] = lists(v)
	}
	d := Data(root)
	return d, d.check()
}

// lists has the structures whose members are 1, 2, 3 ... be lists.
func lists(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, below := range m {
		m[name] = lists(below)
	}
	var list []any
	for n := 1; m[strconv.Itoa(n)] != nil; n++ {
		list = append(list, m[strconv.Itoa(n)])
	}
	if len(list) < len(m) {
		return m
	}
	return list
}

// flat are the values PREFIX.N of a form, in order.
func flat(form url.Values, prefix string) (values []string) {
	for n := 1; form.Has(fmt.Sprint(prefix, ".", n)); n++ {
		values = append(values, form.Get(fmt.Sprint(prefix, ".", n)))
	}
	return values
}

func refOf(form url.Values) cluster.TemplateRef {
	return cluster.TemplateRef{ID: form.Get("LaunchTemplateId"), Name: form.Get("LaunchTemplateName")}
}

func (t *launchTemplate) describe() xmlLaunchTemplate {
	out := xmlLaunchTemplate{
		ID: t.ID, Name: t.Name, Created: protocol.XMLTime(t.CreatedAt), By: "fleet", Default: t.Default, Latest: int64(len(t.Versions)),
	}
	for _, key := range slices.Sorted(maps.Keys(t.Tags)) {
		out.Tags = append(out.Tags, xmlTag{key, t.Tags[key]})
	}
	return out
}

func (t *launchTemplate) describeVersion(n int64) xmlTemplateVersion {
	v := t.Versions[n-1]
	return xmlTemplateVersion{
		ID: t.ID, Name: t.Name, Number: n, Description: v.Description, Created: protocol.XMLTime(v.CreatedAt), By: "fleet", Default: n == t.Default,
		Data: xmlData{v.Data},
	}
}

type xmlTemplateAnswer struct {
	Template *xmlLaunchTemplate  `xml:"launchTemplate"`
	Version  *xmlTemplateVersion `xml:"launchTemplateVersion"`
}

func (e *Templates) createLaunchTemplate(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "LaunchTemplateName", "LaunchTemplateData", "VersionDescription", "ClientToken", "TagSpecification"); err != nil {
		return nil, err
	}
	d, err := formData(form, "LaunchTemplateData")
	if err != nil {
		return nil, err
	}
	if len(d) == 0 {
		return nil, cluster.Errorf("MissingParameter", "The request must contain the parameter LaunchTemplateData")
	}
	tags := map[string]string{}
	for n := 1; form.Has(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", n)); n++ {
		at := fmt.Sprintf("TagSpecification.1.Tag.%d.", n)
		tags[form.Get(at+"Key")] = form.Get(at + "Value")
	}
	var out xmlTemplateAnswer
	err = e.kernel.Change(func(now time.Time) error {
		if err := e.newTemplateName(form.Get("LaunchTemplateName")); err != nil {
			return err
		}
		t := e.addTemplate(form.Get("LaunchTemplateName"), templateVersion{Description: form.Get("VersionDescription"), Data: d}, now)
		t.Tags = tags
		out.Template = new(t.describe())
		return nil
	})
	return out, err
}

func (e *Templates) createLaunchTemplateVersion(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "LaunchTemplateId", "LaunchTemplateName", "LaunchTemplateData", "SourceVersion", "VersionDescription", "ClientToken"); err != nil {
		return nil, err
	}
	d, err := formData(form, "LaunchTemplateData")
	if err != nil {
		return nil, err
	}
	ref := refOf(form)
	var out xmlTemplateAnswer
	err = e.kernel.Call("CreateLaunchTemplateVersion", ref.ID+ref.Name, func(now time.Time) error {
		if source := form.Get("SourceVersion"); source != "" {
			from, n, err := e.templateAt(cluster.TemplateRef{ID: ref.ID, Name: ref.Name, Version: source})
			if err != nil {
				return err
			}
			d = from.Versions[n-1].Data.with(d)
		}
		t, err := e.addVersion(ref, templateVersion{Description: form.Get("VersionDescription"), Data: d}, now)
		if err == nil {
			out.Version = new(t.describeVersion(int64(len(t.Versions))))
		}
		return err
	})
	return out, err
}

func (e *Templates) modifyLaunchTemplate(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "LaunchTemplateId", "LaunchTemplateName", "SetDefaultVersion", "ClientToken"); err != nil {
		return nil, err
	}
	var out xmlTemplateAnswer
	err := e.kernel.Change(func(time.Time) error {
		ref := refOf(form)
		ref.Version = form.Get("SetDefaultVersion")
		t, n, err := e.templateAt(ref)
		if err == nil {
			t.Default = n
			e.kernel.Save(t)
			out.Template = new(t.describe())
		}
		return err
	})
	return out, err
}

func (e *Templates) deleteLaunchTemplate(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "LaunchTemplateId", "LaunchTemplateName"); err != nil {
		return nil, err
	}
	var out xmlTemplateAnswer
	err := e.kernel.Change(func(time.Time) error {
		t, err := e.template(refOf(form))
		if err == nil {
			delete(e.rows, t.ID)
			e.kernel.Delete(t)
			out.Template = new(t.describe())
		}
		return err
	})
	return out, err
}

func (e *Templates) describeLaunchTemplates(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "LaunchTemplateId", "LaunchTemplateName", "MaxResults", "NextToken"); err != nil {
		return nil, err
	}
	size := 200
	if err := protocol.Whole(form, "MaxResults", &size); err != nil {
		return nil, err
	}
	var all []xmlLaunchTemplate
	err := e.kernel.View(func(time.Time) error {
		for _, id := range flat(form, "LaunchTemplateId") {
			t, err := e.template(cluster.TemplateRef{ID: id})
			if err != nil {
				return err
			}
			all = append(all, t.describe())
		}
		for _, name := range flat(form, "LaunchTemplateName") {
			t, err := e.template(cluster.TemplateRef{Name: name})
			if err != nil {
				return err
			}
			all = append(all, t.describe())
		}
		if !form.Has("LaunchTemplateId.1") && !form.Has("LaunchTemplateName.1") {
			for _, t := range e.rows {
				all = append(all, t.describe())
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
	out.Templates, out.Next, err = protocol.PageOf(all, form.Get("NextToken"), size, 200)
	return out, err
}

func (e *Templates) describeLaunchTemplateVersions(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "LaunchTemplateId", "LaunchTemplateName", "LaunchTemplateVersion", "MaxResults", "NextToken"); err != nil {
		return nil, err
	}
	ref, size := refOf(form), 200
	if err := protocol.Whole(form, "MaxResults", &size); err != nil {
		return nil, err
	}
	var all []xmlTemplateVersion
	err := e.kernel.CallView("DescribeLaunchTemplateVersions", ref.ID+ref.Name, func(time.Time) error {
		for _, version := range flat(form, "LaunchTemplateVersion") {
			t, n, err := e.templateAt(cluster.TemplateRef{ID: ref.ID, Name: ref.Name, Version: version})
			if err != nil {
				return err
			}
			all = append(all, t.describeVersion(n))
		}
		if form.Has("LaunchTemplateVersion.1") {
			return nil
		}
		t, err := e.template(ref)
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
	out.Versions, out.Next, err = protocol.PageOf(all, form.Get("NextToken"), size, 200)
	return out, err
}

// DefaultImage is what machines run that no launch template says otherwise of.
const DefaultImage = "ami-0be47000000000001"

// images are those that DescribeImages knows, by name. A launch template may name any other by its id.
var images = map[string]string{
	"berth-ecs-1": DefaultImage, "berth-ecs-2": "ami-0be47000000000002", "berth-ecs-3": "ami-0be47000000000003",
}

func describeImages(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "ImageId", "Owner", "Filter", "MaxResults", "NextToken"); err != nil {
		return nil, err
	}
	type image struct {
		ID    string `xml:"imageId"`
		Name  string `xml:"name"`
		State string `xml:"imageState"`
	}
	var out struct {
		Images []image `xml:"imagesSet>item"`
	}
	ids, names := flat(form, "ImageId"), flat(form, "Filter.1.Value")
	if filter := form.Get("Filter.1.Name"); form.Has("Filter.2.Name") || filter != "" && filter != "name" {
		return nil, cluster.Errorf("InvalidParameterValue", "The simulated fleet knows images by the filter name alone")
	}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		if (len(ids) == 0 || slices.Contains(ids, images[name])) && (len(names) == 0 || slices.Contains(names, name)) {
			out.Images = append(out.Images, image{images[name], name, "available"})
		}
	}
	return out, nil
}
