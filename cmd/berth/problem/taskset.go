package problem

import (
	"fmt"
	"strconv"
	"strings"

	"berth/shared/cluster"
)

// describeTaskSet names a task set of a service.
func describeTaskSet(s *cluster.Service, id string) string {
	return "task set " + id + " of service " + s.Name
}

// deployHelp returns what replaces a revision whose tasks do not work, and what says so. A service of
// the deployment controller EXTERNAL gets another task set with the settings of the one that fails:
// ECS refuses to update its task definition.
func deployHelp(f *finder, s *cluster.Service, deployment, definition, what string) []Help {
	for _, set := range s.TaskSets() {
		if set.ID == deployment {
			return []Help{{what, f.aws("create-task-set --service %s --task-definition %s %s", s.Name,
				familyOf(definition), taskSetArguments(&set))},
				{"Then delete the task set that fails", f.aws("delete-task-set --service %s --task-set %s --force",
					s.Name, set.ID)}}
		}
	}
	return []Help{{what, f.aws("update-service --service %s --task-definition %s", s.Name, familyOf(definition))}}
}

// taskSetArguments returns what CreateTaskSet needs to make a task set like another one.
func taskSetArguments(d *cluster.Deployment) string {
	scale := strconv.FormatFloat(d.Set.Scale, 'f', -1, 64)
	arguments := []string{"--scale", fields("value", scale, "unit", "PERCENT")}
	if d.Set.External {
		arguments = append(arguments, "--launch-type EXTERNAL")
	}
	for n, p := range d.Providers {
		if n == 0 {
			arguments = append(arguments, "--capacity-provider-strategy")
		}
		arguments = append(arguments, fields("capacityProvider", p.Provider, "weight", strconv.Itoa(p.Weight),
			"base", strconv.Itoa(p.Base)))
	}
	if d.Network != nil {
		vpc := "{" + fields("subnets", listValue(d.Network.Subnets), "securityGroups",
			listValue(d.Network.SecurityGroups)) + "}"
		arguments = append(arguments, "--network-configuration", QuoteArgument("awsvpcConfiguration="+vpc))
	}
	for n, l := range d.LoadBalancers {
		if n == 0 {
			arguments = append(arguments, "--load-balancers")
		}
		balancer := []string{"targetGroupArn", l.TargetGroup}
		if name, classic := cluster.ClassicName(l.TargetGroup); classic {
			balancer = []string{"loadBalancerName", name}
		}
		arguments = append(arguments, fields(append(balancer, "containerName", l.Container,
			"containerPort", portValue(l.Port))...))
	}
	for n, r := range d.Registries {
		if n == 0 {
			arguments = append(arguments, "--service-registries")
		}
		arguments = append(arguments, fields("registryArn", r.ARN, "port", portValue(r.Port),
			"containerName", r.Container, "containerPort", portValue(r.ContainerPort)))
	}
	return strings.Join(arguments, " ")
}

// fields returns names and values in the short syntax of the AWS CLI, without values that are empty:
// "value=50,unit=PERCENT".
func fields(namesAndValues ...string) string {
	var set []string
	for n := 0; n < len(namesAndValues); n += 2 {
		if namesAndValues[n+1] != "" {
			set = append(set, fmt.Sprintf("%s=%s", namesAndValues[n], namesAndValues[n+1]))
		}
	}
	return strings.Join(set, ",")
}

// listValue returns a list in the short syntax of the AWS CLI, empty for an empty one.
func listValue(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return "[" + strings.Join(values, ",") + "]"
}

func portValue(port int) string {
	if port == 0 {
		return ""
	}
	return strconv.Itoa(port)
}
