package ec2

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

// launchTemplate is an EC2 launch template, as stored. Versions count from 1; Default is the number
// of $Default.
type launchTemplate struct {
	ID, Name  string
	CreatedAt time.Time
	Default   int64
	Versions  []templateVersion
	Tags      map[string]string `json:",omitempty"`
}

const bucket = "launchTemplates"

// Templates are the launch templates.
type Templates struct {
	kernel.Table[*launchTemplate] // by id

	kernel *kernel.Kernel
}

// NewTemplates returns no templates yet.
func NewTemplates(k *kernel.Kernel) *Templates {
	return &Templates{Table: kernel.NewTable[*launchTemplate](bucket), kernel: k}
}

// ResolveTemplate returns the version of a launch template that ref names, $Default where it names
// none, and its data. It belongs in a step.
func (e *Templates) ResolveTemplate(ref cluster.TemplateRef) (*cluster.LaunchTemplate, Data, error) {
	t, n, err := e.resolveVersion(ref)
	if err != nil {
		return nil, nil, err
	}
	return t.forScheduler(n), t.Versions[n-1].Data, nil
}

// CreateInStep makes a launch template with one version, of any name. It belongs in a step.
func (e *Templates) CreateInStep(name string, data Data, now time.Time) *cluster.LaunchTemplate {
	return e.addTemplate(name, templateVersion{Data: data}, now).forScheduler(1)
}

// templateVersion is one version of a launch template.
type templateVersion struct {
	Description string
	CreatedAt   time.Time
	Data        Data
}

// Data is launch template data by the names that requests have. Values are strings, maps and lists,
// as forms have them: nothing here needs the types of the members but for a few texts. Example:
//
//	{"ImageId": "ami-1", "InstanceType": "m5.large", "SecurityGroupId": ["sg-1", "sg-2"]}
type Data map[string]any

// TextMember returns a string of the data, or "".
func (d Data) TextMember(name string) string {
	s, _ := d[name].(string)
	return s
}

func (t *launchTemplate) StoredRow() (string, string, any) { return bucket, t.ID, t }

// forScheduler returns version n in Berth's terms.
func (t *launchTemplate) forScheduler(n int64) *cluster.LaunchTemplate {
	data := t.Versions[n-1].Data
	out := &cluster.LaunchTemplate{ID: t.ID, Name: t.Name, Version: n, Image: data.TextMember("ImageId"),
		Type: data.TextMember("InstanceType")}
	userData, _ := base64.StdEncoding.DecodeString(data.TextMember("UserData")) // checked when it was stored
	out.UserData = string(userData)
	if wanted := data["InstanceRequirements"]; wanted != nil {
		text, _ := json.Marshal(wanted) // maps and texts, which always have a JSON form
		out.Requirements = string(text)
	}
	out.Settings = data.nodeGroupSettings()
	return out
}

// nodeGroupSettings returns those of [cluster.NodeGroupSettings] that the data has.
func (d Data) nodeGroupSettings() string {
	var names []string
	interfaces, _ := d["NetworkInterface"].([]any)
	for _, name := range cluster.NodeGroupSettings {
		has := d[name] != nil
		switch name {
		case cluster.SettingHibernation:
			options, _ := d[name].(map[string]any)
			has = options["Configured"] == "true"
		case cluster.SettingSubnet:
			has = slices.ContainsFunc(interfaces, func(v any) bool {
				members, _ := v.(map[string]any)
				return members["SubnetId"] != nil
			})
		}
		if has {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// AddTemplate creates a launch template with one version of an image, and returns its id.
func (e *Templates) AddTemplate(name, image string) (id string, err error) {
	return e.AddTemplateWith(name, Data{"ImageId": image})
}

// AddTemplateWith creates a launch template with one version, and returns its id.
func (e *Templates) AddTemplateWith(name string, data Data) (id string, err error) {
	err = e.kernel.Change(func(now time.Time) error {
		if err := e.checkNewName(name); err != nil {
			return err
		}
		id = e.CreateInStep(name, data, now).ID
		return nil
	})
	return id, err
}

// checkNewName returns an error if a new template cannot have the name: its length, or another has
// it.
func (e *Templates) checkNewName(name string) error {
	if len(name) < 3 || len(name) > 128 {
		return cluster.Errorf("InvalidLaunchTemplateName.MalformedException",
			"A launch template name has 3 to 128 characters.")
	}
	if t, _ := e.findTemplate(cluster.TemplateRef{Name: name}); t != nil {
		return cluster.Errorf("InvalidLaunchTemplateName.AlreadyExistsException",
			"Launch template name already in use.")
	}
	return nil
}

// addTemplate adds a template whose first version is also its default.
func (e *Templates) addTemplate(name string, v templateVersion, now time.Time) *launchTemplate {
	v.CreatedAt = now
	t := &launchTemplate{ID: "lt-" + e.kernel.ResourceID("template", e.kernel.NextNumber("Templates"))[:17], Name: name,
		CreatedAt: now, Default: 1, Versions: []templateVersion{v}}
	e.Rows[t.ID] = t
	e.kernel.SaveRow(t)
	return t
}

// findTemplate returns a template by id or by name.
func (e *Templates) findTemplate(ref cluster.TemplateRef) (*launchTemplate, error) {
	for _, t := range e.Rows {
		if ref.ID == t.ID || ref.ID == "" && ref.Name == t.Name {
			return t, nil
		}
	}
	if ref.ID != "" {
		return nil, cluster.Errorf("InvalidLaunchTemplateId.NotFound",
			"The specified launch template, with template ID %.64s, does not exist.", ref.ID)
	}
	return nil, cluster.Errorf("InvalidLaunchTemplateName.NotFoundException",
		"The specified launch template, with template name %.128s, does not exist.", ref.Name)
}

// resolveVersion returns a template and the number of the version that ref names, $Default if it
// names none.
func (e *Templates) resolveVersion(ref cluster.TemplateRef) (*launchTemplate, int64, error) {
	t, err := e.findTemplate(ref)
	if err != nil {
		return nil, 0, err
	}
	switch ref.Version {
	case "", "$Default":
		return t, t.Default, nil
	case "$Latest":
		return t, int64(len(t.Versions)), nil
	}
	n, err := strconv.ParseInt(ref.Version, 10, 64)
	if err != nil || n < 1 || n > int64(len(t.Versions)) {
		return nil, 0, cluster.Errorf("InvalidLaunchTemplateId.VersionNotFound",
			"Could not find the specified version %.20s for the launch template with ID %s.", ref.Version, t.ID)
	}
	return t, n, nil
}

// LaunchTemplate returns one version of a launch template.
func (e *Templates) LaunchTemplate(
	_ context.Context, ref cluster.TemplateRef,
) (out *cluster.LaunchTemplate, err error) {
	err = e.kernel.CallView("DescribeLaunchTemplateVersions", ref.ID+ref.Name, func(time.Time) error {
		t, n, err := e.resolveVersion(ref)
		if err == nil {
			out = t.forScheduler(n)
		}
		return err
	})
	return out, err
}

// FindVersion returns the newest version of a template with a description, or nil.
func (e *Templates) FindVersion(_ context.Context, id, description string) (out *cluster.LaunchTemplate, err error) {
	err = e.kernel.CallView("DescribeLaunchTemplateVersions", id, func(time.Time) error {
		t, err := e.findTemplate(cluster.TemplateRef{ID: id})
		if err != nil {
			return err
		}
		for k, v := range slices.Backward(t.Versions) {
			if v.Description == description {
				out = t.forScheduler(int64(k + 1))
				break
			}
		}
		return nil
	})
	return out, err
}

// CreateVersion creates a version of a template that differs from another in the image, given by id
// or name, and in the user data if there is some. The other version may be of another template: an
// update copies the version that the group has.
func (e *Templates) CreateVersion(
	_ context.Context, v cluster.NewTemplateVersion,
) (out *cluster.LaunchTemplate, err error) {
	if v.Image != "" && !strings.HasPrefix(v.Image, "ami-") && !strings.HasPrefix(v.Image, "resolve:") {
		name := v.Image
		if v.Image = images[name]; v.Image == "" {
			return nil, cluster.Errorf("InvalidAMIID.NotFound", "No image of the simulated AWS has the name %.128s",
				name)
		}
	}
	err = e.kernel.Call("CreateLaunchTemplateVersion", v.Template, func(now time.Time) error {
		from, n, err := e.resolveVersion(v.From)
		if err != nil {
			return err
		}
		changed := Data{}
		if v.Image != "" {
			changed["ImageId"] = v.Image
		}
		if v.UserData != "" {
			changed["UserData"] = base64.StdEncoding.EncodeToString([]byte(v.UserData))
		}
		if v.Profile != "" {
			changed["IamInstanceProfile"] = map[string]any{"Name": v.Profile}
		}
		t, err := e.addVersion(cluster.TemplateRef{ID: v.Template}, templateVersion{
			Description: v.Description, Data: from.Versions[n-1].Data.withMembers(changed),
		}, now)
		if err == nil {
			out = t.forScheduler(int64(len(t.Versions)))
		}
		return err
	})
	return out, err
}

// withMembers returns the data with some members replaced.
func (d Data) withMembers(some Data) Data {
	out := maps.Clone(d)
	if out == nil {
		out = Data{}
	}
	maps.Copy(out, some)
	return out
}

// addVersion adds the next version of a template. The default stays what it was.
func (e *Templates) addVersion(ref cluster.TemplateRef, v templateVersion, now time.Time) (*launchTemplate, error) {
	t, err := e.findTemplate(ref)
	if err != nil {
		return nil, err
	}
	v.CreatedAt = now
	t.Versions = append(t.Versions, v)
	e.kernel.SaveRow(t)
	return t, nil
}

// checkMembers returns EC2's error for unknown members, and for user data that is not base64 or too
// long.
func (d Data) checkMembers() error {
	for name := range d {
		if !slices.Contains(dataMembers, name) {
			return cluster.Errorf("UnknownParameter", "The parameter LaunchTemplateData.%.64s is not recognized", name)
		}
	}
	raw, err := base64.StdEncoding.DecodeString(d.TextMember("UserData"))
	switch {
	case err != nil:
		return cluster.Errorf("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	case len(raw) > 16<<10:
		return cluster.Errorf("InvalidUserData.Malformed", "User data is limited to 16384 bytes")
	}
	return nil
}

// dataMembers are the members of EC2's RequestLaunchTemplateData by their names in forms. All are
// stored and returned; image, type and user data have an effect.
var dataMembers = []string{
	"BlockDeviceMapping", "CapacityReservationSpecification", "CpuOptions", "CreditSpecification", "DisableApiStop",
	"DisableApiTermination",
	"EbsOptimized", "ElasticGpuSpecification", "ElasticInferenceAccelerator", "EnclaveOptions", "HibernationOptions",
	"IamInstanceProfile", "ImageId",
	"InstanceInitiatedShutdownBehavior", "InstanceMarketOptions", "InstanceRequirements", "InstanceType", "KernelId",
	"KeyName", "LicenseSpecification",
	"MaintenanceOptions", "MetadataOptions", "Monitoring", "NetworkInterface", "NetworkPerformanceOptions", "Operator",
	"Placement",
	"PrivateDnsNameOptions", "RamDiskId", "SecondaryInterface", "SecurityGroup", "SecurityGroupId", "TagSpecification",
	"UserData",
}
