package nodegroup

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"berth/shared/cluster"
)

// DefaultAMIType is the AMI type of a node group whose user gave none.
const DefaultAMIType = "AL2023_x86_64_STANDARD"

// CustomAMIType is the AMI type of nodes whose image the user's own launch template names.
const CustomAMIType = "CUSTOM"

// An imageFamily is a kind of image that AWS publishes for container instances.
type imageFamily struct {
	// path is the folder of its parameters in Systems Manager.
	path         string
	bottlerocket bool
	gpu          bool
}

// The folders of Amazon's public parameters of images.
const (
	optimizedImages    = "/aws/service/ecs/optimized-ami/"
	bottlerocketImages = "/aws/service/bottlerocket/"
)

// imageFamilies has the images by AMI type, in EKS's words.
var imageFamilies = map[string]imageFamily{
	"AL2023_x86_64_STANDARD":     {path: optimizedImages + "amazon-linux-2023"},
	"AL2023_ARM_64_STANDARD":     {path: optimizedImages + "amazon-linux-2023/arm64"},
	"AL2023_x86_64_NVIDIA":       {path: optimizedImages + "amazon-linux-2023/gpu", gpu: true},
	"AL2_x86_64":                 {path: optimizedImages + "amazon-linux-2"},
	"AL2_ARM_64":                 {path: optimizedImages + "amazon-linux-2/arm64"},
	"AL2_x86_64_GPU":             {path: optimizedImages + "amazon-linux-2/gpu", gpu: true},
	"BOTTLEROCKET_x86_64":        {path: bottlerocketImages + "aws-ecs-2/x86_64", bottlerocket: true},
	"BOTTLEROCKET_ARM_64":        {path: bottlerocketImages + "aws-ecs-2/arm64", bottlerocket: true},
	"BOTTLEROCKET_x86_64_NVIDIA": {path: bottlerocketImages + "aws-ecs-2-nvidia/x86_64", bottlerocket: true, gpu: true},
	"BOTTLEROCKET_ARM_64_NVIDIA": {path: bottlerocketImages + "aws-ecs-2-nvidia/arm64", bottlerocket: true, gpu: true},
}

// isARM reports whether the images are for ARM processors.
func (f imageFamily) isARM() bool { return strings.Contains(f.path, "/arm64") }

// armTypes are the instance types with an ARM processor: a1, those with a g among the letters behind
// the number of the generation, such as c7gn, and those of Grace Blackwell, such as p6e-gb200 (EC2
// instance types guide, naming conventions).
var armTypes = regexp.MustCompile(`^(a1|[a-z]+[0-9]+([a-z]*g[a-z]*|[a-z]*-gb[0-9]+))[.-]`)

// isARMType reports whether an instance type has an ARM processor, by its name: EC2 is not asked.
func isARMType(instanceType string) bool { return armTypes.MatchString(instanceType) }

// defaultInstanceTypes returns the types of nodes for which the user gave none: EKS's default for the
// images' architecture.
func defaultInstanceTypes(amiType string) []string {
	if imageFamilies[amiType].isARM() {
		return []string{defaultARMInstanceType}
	}
	return []string{defaultInstanceType}
}

// AMITypes returns the AMI types that nodes can have, sorted.
func AMITypes() []string { return slices.Sorted(maps.Keys(imageFamilies)) }

// disk returns the volume that a node's images and containers are on, and its least size in GiB.
// The root volume of an ECS-optimized image has 30 GiB, and no volume can be smaller than its
// image. Bottlerocket has a volume of its own for them.
func (f imageFamily) disk() (device string, least int) {
	if f.bottlerocket {
		return "/dev/xvdb", 20
	}
	return "/dev/xvda", 30
}

// ImageParameters returns the names of the public parameters that say which image a target has: the
// newest if it names no release.
func ImageParameters(t cluster.UpdateTarget) []string {
	f := imageFamilies[t.AMIType]
	if f.bottlerocket {
		release := f.path + "/" + cmp.Or(t.ReleaseVersion, "latest")
		return []string{release + "/image_id", release + "/image_version"}
	}
	return []string{f.path + "/" + cmp.Or(t.ReleaseVersion, "recommended")}
}

// PublishedTarget completes a target by the values of its parameters: the image, and the release if
// the target named none. An unknown release is an InvalidParameterException.
func PublishedTarget(t cluster.UpdateTarget, values map[string]string) (cluster.UpdateTarget, error) {
	names := ImageParameters(t)
	var image, release string
	if imageFamilies[t.AMIType].bottlerocket {
		image, release = values[names[0]], values[names[1]]
	} else {
		var published struct {
			Image string `json:"image_id"`
			Name  string `json:"image_name"`
		}
		_ = json.Unmarshal([]byte(values[names[0]]), &published) // without an image it is refused below
		image, release = published.Image, published.Name
	}
	if !IsImageID(image) {
		return t, cluster.Errorf(cluster.CodeInvalidParameter,
			"Requested release version %s of AMI type %s is not published: Systems Manager has no parameter %s",
			cmp.Or(t.ReleaseVersion, "(the newest)"), t.AMIType, names[0])
	}
	t.Image, t.ReleaseVersion = image, cmp.Or(t.ReleaseVersion, release)
	return t, nil
}

// UserData returns what makes a new node's agent join the cluster with the node group's labels.
// The labels that say what the node is made of are not in it, because an update changes only the
// image of the launch template.
func UserData(g *cluster.NodeGroup) string {
	f, labels := imageFamilies[g.Target.AMIType], GroupLabels(g)
	spot := g.Machines.CapacityType == cluster.Spot
	if f.bottlerocket {
		return bottlerocketSettings(g.Cluster, labels, spot)
	}
	attributes, _ := json.Marshal(labels) // texts cannot fail
	lines := []string{"#!/bin/bash", "cat >> /etc/ecs/ecs.config <<'EOF'", "ECS_CLUSTER=" + g.Cluster,
		"ECS_INSTANCE_ATTRIBUTES=" + string(attributes)}
	if spot {
		lines = append(lines, "ECS_ENABLE_SPOT_INSTANCE_DRAINING=true")
	}
	if f.gpu {
		lines = append(lines, "ECS_ENABLE_GPU_SUPPORT=true")
	}
	return strings.Join(append(lines, "EOF", ""), "\n")
}

// bottlerocketSettings returns the settings of a Bottlerocket node, in TOML. Its strings are
// written as JSON's are.
func bottlerocketSettings(clusterName string, labels map[string]string, spot bool) string {
	quoted := func(s string) string {
		text, _ := json.Marshal(s) // texts cannot fail
		return string(text)
	}
	lines := []string{"[settings.ecs]", "cluster = " + quoted(clusterName)}
	if spot {
		lines = append(lines, "enable-spot-instance-draining = true")
	}
	lines = append(lines, "[settings.ecs.instance-attributes]")
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		lines = append(lines, quoted(name)+" = "+quoted(labels[name]))
	}
	return strings.Join(append(lines, ""), "\n")
}
