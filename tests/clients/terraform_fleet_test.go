//go:build unix

package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runFleetStory applies a larger configuration, and changes the tags of all resources, the image of
// the services and their number. It then forgets resources and imports them, renames a service by a
// moved block, and destroys. Each step also shows that the one before left nothing else to do: what
// it changes is counted.
func runFleetStory(t *testing.T, d *door) {
	if d.isProxied {
		t.Skip("an import asks STS for the account, which only berth up answers")
	}
	s := newTerraformStory(t, d, "terraform-fleet")
	out := s.apply()
	s.contains(out, "Apply complete! Resources: 36 added, 0 changed, 0 destroyed.")
	s.contains(out, "ACTIVE shop 3 REPLICA nginx:1 svc-2 host")

	out = s.apply("image=nginx:2", "owner=platform", `extra={"late" = {cluster = "fleet-b", count = 2, cpu = 64}}`)
	s.contains(out, "Apply complete! Resources: 8 added, 22 changed, 6 destroyed.")
	s.contains(out, "ACTIVE platform 3 REPLICA nginx:2 svc-2 host")

	imports := s.forget([][2]string{
		{`aws_ecs_cluster.fleet["fleet-b"]`, "fleet-b"},
		{`aws_ecs_cluster_capacity_providers.fleet["fleet-b"]`, "fleet-b"},
		{`aws_ecs_capacity_provider.group["b-main"]`, "fleet-b-main"},
		{"aws_ecs_task_definition.daemon", "arn:aws:ecs:us-east-1:123456789012:task-definition/agent:1"},
		{"aws_ecs_service.plain", "fleet-a/plain"},
		{"aws_ecs_tag.extra", "arn:aws:ecs:us-east-1:123456789012:service/fleet-a/plain,extra"},
		{"aws_eks_node_group.pool", "fleet-a:pool"},
	})
	// The provider imports a service with its cluster's ARN and its task definition's family and
	// revision. The configuration has both, so nothing is left to change.
	s.contains(s.terraform("apply", "-auto-approve"),
		"Apply complete! Resources: 7 imported, 0 added, 0 changed, 0 destroyed.")

	if err := os.Remove(imports); err != nil {
		t.Fatal(err)
	}
	s.rename("plain", "renamed")
	s.contains(s.terraform("apply", "-auto-approve"), "Apply complete! Resources: 0 added, 0 changed, 0 destroyed.")
	s.contains(s.terraform("destroy", "-auto-approve"), "Destroy complete! Resources: 38 destroyed.")
}

// forget removes resources from the state, given by address and id, and writes a file that imports
// them, which it returns.
func (s *terraformStory) forget(resources [][2]string) string {
	s.t.Helper()
	command, imports := []string{"state", "rm"}, ""
	for _, one := range resources {
		command = append(command, one[0])
		imports += fmt.Sprintf("import {\n  to = %s\n  id = %q\n}\n", one[0], one[1])
	}
	s.must("terraform", command...)
	file := filepath.Join(s.dir, "imports.tf")
	if err := os.WriteFile(file, []byte(imports), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// rename gives a service of the configuration another name there, with a moved block.
func (s *terraformStory) rename(from, to string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "main.tf")
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	renamed := strings.NewReplacer(`"aws_ecs_service" "`+from+`"`, `"aws_ecs_service" "`+to+`"`,
		"aws_ecs_service."+from, "aws_ecs_service."+to).Replace(string(text))
	renamed += fmt.Sprintf("\nmoved {\n  from = aws_ecs_service.%s\n  to   = aws_ecs_service.%s\n}\n", from, to)
	if err := os.WriteFile(file, []byte(renamed), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
