package nodegroup

import (
	"bufio"
	"cmp"
	"mime"
	"net/textproto"
	"strconv"
	"strings"

	"berth/shared/cluster"
)

// Bounds and words of the user data of nodes that are made of a user's own launch template.
const (
	// maxUserData is how many bytes EC2 takes, before base64 (EC2 user guide, user data).
	maxUserData  = 16 * 1024
	notMultipart = "User data was not in the MIME multipart format."
)

// JoinsByBerth reports whether Berth writes what makes the nodes of a target join the cluster. It
// does so with published images. If the user's own launch template names the image, the user data
// is that template's alone, as in EKS.
func JoinsByBerth(t cluster.UpdateTarget) bool { return t.AMIType != "" && t.AMIType != CustomAMIType }

// OwnTemplateTarget completes the target of a node group that Berth makes with a version of the
// user's own launch template. The image is that of the template, whose AMI type is CUSTOM then, or
// a published one that is still to be looked up. The refusals are EKS's, and its words where they
// are known.
func OwnTemplateTarget(
	g *cluster.NodeGroup, t cluster.UpdateTarget, lt *cluster.LaunchTemplate,
) (cluster.UpdateTarget, error) {
	if err := checkSettings(lt); err != nil {
		return t, err
	}
	switch {
	case lt.Image != "" && JoinsByBerth(t):
		return t, cluster.Errorf(cluster.CodeInvalidParameter,
			"You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template.")
	case lt.Image != "" && t.Version != "":
		return t, cluster.Errorf(cluster.CodeInvalidParameter,
			"You cannot specify a kubernetes version to use when specifying an image id to use within the launch "+
				"template.")
	case lt.Image != "" && t.ReleaseVersion != "":
		return t, cluster.Errorf(cluster.CodeInvalidParameter,
			"You cannot specify a releaseVersion when specifying an image id to use within the launch template.")
	case lt.Image == "" && t.AMIType == CustomAMIType:
		return t, cluster.Errorf(cluster.CodeInvalidParameter,
			"Version %d of launch template %s must specify an image id when the AMI Type is CUSTOM.", lt.Version, lt.ID)
	}
	t.SourceTemplate, t.SourceName, t.SourceVersion = lt.ID, lt.Name, strconv.FormatInt(lt.Version, 10)
	if t.Image = lt.Image; lt.Image != "" {
		t.AMIType = CustomAMIType
		return t, nil
	}
	t.AMIType = cmp.Or(t.AMIType, DefaultAMIType)
	of := *g
	of.Target = t
	_, err := MergeUserData(lt.UserData, &of)
	return t, err
}

// checkSettings refuses a launch template with a setting that a node group's cannot have.
func checkSettings(lt *cluster.LaunchTemplate) error {
	name := cmp.Or(lt.Name, lt.ID)
	switch {
	case strings.Contains(lt.Settings, cluster.SettingProfile):
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Launch template %s should not specify an instance profile. "+
				"The noderole in your request will be used to construct an instance profile.", name)
	case lt.Settings != "":
		return cluster.Errorf(cluster.CodeInvalidParameter, "Launch template %s should not specify %s.", name,
			lt.Settings)
	}
	return nil
}

// MachinesOfTemplate returns the machines of a node group that Berth makes from a launch template
// of the user's own. Either the template or the request names instance types; if none does, they
// are EKS's default for the AMI type.
func MachinesOfTemplate(
	m cluster.Machines, amiType string, lt *cluster.LaunchTemplate,
) (cluster.Machines, error) {
	named := lt.Type != "" || lt.Requirements != ""
	switch {
	case named && len(m.InstanceTypes) > 0:
		return m, cluster.Errorf(cluster.CodeInvalidRequest,
			"Cannot specify instance types in launch template and API request")
	case !named && len(m.InstanceTypes) == 0:
		m.InstanceTypes = defaultInstanceTypes(amiType)
	}
	return m, nil
}

// MergeUserData returns the user data of a node with a published image: that of the user's own
// launch template, then what makes the node join the cluster. The former must be a MIME multipart
// archive, whose last part the latter becomes, or TOML for Bottlerocket, where it cannot have
// settings of ECS.
func MergeUserData(own string, g *cluster.NodeGroup) (string, error) {
	merged := UserData(g)
	switch {
	case strings.TrimSpace(own) == "":
	case imageFamilies[g.Target.AMIType].bottlerocket:
		if line := findECSSetting(own); line != "" {
			return "", cluster.Errorf(cluster.CodeInvalidParameter,
				"The user data of the launch template has %.100q. The settings of ECS are written by Berth.", line)
		}
		merged = strings.TrimRight(own, "\r\n") + "\n" + merged
	default:
		boundary := multipartBoundary(own)
		end := strings.LastIndex(own, "\n--"+boundary+"--")
		if boundary == "" || end < 0 {
			return "", cluster.Errorf(cluster.CodeInvalidParameter, notMultipart)
		}
		part := "--" + boundary + "\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n"
		merged = own[:end+1] + part + merged + own[end+1:]
	}
	if len(merged) > maxUserData {
		return "", cluster.Errorf(cluster.CodeInvalidParameter,
			"The user data of the launch template has %d bytes. With what makes the node join the cluster it has %d, "+
				"but EC2 takes %d.", len(own), len(merged), maxUserData)
	}
	return merged, nil
}

// multipartBoundary returns the boundary of a MIME multipart archive, "" if the text is none.
func multipartBoundary(text string) string {
	header, err := textproto.NewReader(bufio.NewReader(strings.NewReader(text))).ReadMIMEHeader()
	if err != nil {
		return ""
	}
	kind, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return ""
	}
	return parameters["boundary"]
}

// findECSSetting returns the first line of Bottlerocket's settings that is one of ECS, "" for none.
func findECSSetting(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, _, _ := strings.Cut(strings.TrimLeft(strings.ReplaceAll(line, " ", ""), "["), "=")
		key = strings.TrimPrefix(strings.Map(unquoted, key), "settings.")
		name, _, _ := strings.Cut(strings.TrimRight(key, "]"), ".")
		if name == "ecs" || name == "settings" && strings.Contains(line, "{") {
			return line
		}
	}
	return ""
}

// unquoted drops the quotes of a key.
func unquoted(r rune) rune {
	if r == '"' || r == '\'' {
		return -1
	}
	return r
}
