# Two clusters with three capacity providers, and many services that are made by for_each; a group of
# nodes; a service behind a Classic Load Balancer; what the data sources read. The test changes tags,
# images and the list of services, imports resources that exist, and renames one.

terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}
variable "ecs" {}
variable "autoscaling" {}
variable "elbv2" {}
variable "ec2" {}
variable "installation" {}
variable "image" { default = "nginx:1" }
variable "owner" { default = "shop" }
variable "extra" {
  type    = map(object({ cluster = string, count = number, cpu = number }))
  default = {}
}

provider "aws" {
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  endpoints {
    ecs         = var.ecs
    eks         = var.ecs
    autoscaling = var.autoscaling
    elb         = var.elbv2
    elbv2       = var.elbv2
    ec2         = var.ec2
  }
  default_tags {
    tags = { stack = "fleet", owner = var.owner }
  }
}

locals {
  clusters = toset(["fleet-a", "fleet-b"])
  groups = {
    "a-on-demand" = { cluster = "fleet-a", type = "m5.large" }
    "a-spot"      = { cluster = "fleet-a", type = "c5.large" }
    "b-main"      = { cluster = "fleet-b", type = "m5.xlarge" }
  }
  services = merge({ for n in range(6) : "svc-${n}" => {
    cluster = n % 2 == 0 ? "fleet-a" : "fleet-b"
    count   = 1 + n % 3
    cpu     = 64 * (1 + n % 4)
  } }, var.extra)
}

resource "aws_ecs_cluster" "fleet" {
  for_each = local.clusters
  name     = each.key
  setting {
    name  = "containerInsights"
    value = each.key == "fleet-a" ? "enabled" : "disabled"
  }
  configuration {
    execute_command_configuration {
      logging = "DEFAULT"
    }
  }
  tags = { cluster = each.key }
}

resource "aws_launch_template" "group" {
  for_each      = local.groups
  name          = "fleet-${each.key}"
  image_id      = "ami-1"
  instance_type = each.value.type
  user_data     = base64encode("#!/bin/bash\necho ECS_CLUSTER=${each.value.cluster} >> /etc/ecs/ecs.config\n")
}

resource "aws_autoscaling_group" "group" {
  for_each              = local.groups
  name                  = "fleet-${each.key}"
  min_size              = 0
  max_size              = 10
  availability_zones    = ["us-east-1a", "us-east-1b", "us-east-1c"]
  protect_from_scale_in = true
  launch_template {
    id      = aws_launch_template.group[each.key].id
    version = aws_launch_template.group[each.key].latest_version
  }
  tag {
    key                 = "AmazonECSManaged"
    value               = true
    propagate_at_launch = true
  }
  tag {
    key                 = "berth:installation"
    value               = var.installation
    propagate_at_launch = false
  }
  lifecycle {
    ignore_changes = [desired_capacity]
  }
}

resource "aws_ecs_capacity_provider" "group" {
  for_each = local.groups
  name     = "fleet-${each.key}"
  auto_scaling_group_provider {
    auto_scaling_group_arn         = aws_autoscaling_group.group[each.key].arn
    managed_termination_protection = "ENABLED"
    managed_draining               = "ENABLED"
    managed_scaling {
      status                    = "ENABLED"
      target_capacity           = 90
      minimum_scaling_step_size = 1
      maximum_scaling_step_size = 5
      instance_warmup_period    = 60
    }
  }
}

resource "aws_ecs_cluster_capacity_providers" "fleet" {
  for_each     = local.clusters
  cluster_name = aws_ecs_cluster.fleet[each.key].name
  capacity_providers = concat(["FARGATE", "FARGATE_SPOT"],
  [for k, g in local.groups : aws_ecs_capacity_provider.group[k].name if g.cluster == each.key])
  dynamic "default_capacity_provider_strategy" {
    for_each = [for k, g in local.groups : k if g.cluster == each.key]
    content {
      capacity_provider = aws_ecs_capacity_provider.group[default_capacity_provider_strategy.value].name
      weight            = 1
      base              = default_capacity_provider_strategy.key == 0 ? 1 : 0
    }
  }
}

resource "aws_ecs_task_definition" "svc" {
  for_each                 = local.services
  family                   = each.key
  requires_compatibilities = ["EC2"]
  network_mode             = each.value.cpu > 128 ? "host" : "bridge"
  volume {
    name      = "scratch"
    host_path = "/tmp/scratch"
  }
  placement_constraints {
    type       = "memberOf"
    expression = "attribute:ecs.os-type == linux"
  }
  container_definitions = jsonencode([{
    name             = "app"
    image            = var.image
    cpu              = each.value.cpu
    memory           = 128
    essential        = true
    environment      = [{ name = "NAME", value = each.key }, { name = "STAGE", value = "test" }]
    mountPoints      = [{ sourceVolume = "scratch", containerPath = "/scratch" }]
    healthCheck      = { command = ["CMD-SHELL", "true"], interval = 5, retries = 2, timeout = 2, startPeriod = 10 }
    logConfiguration = { logDriver = "awslogs", options = { "awslogs-group" = each.key, "awslogs-region" = "us-east-1" } }
    ulimits          = [{ name = "nofile", softLimit = 1024, hardLimit = 4096 }]
    dependsOn        = [{ containerName = "side", condition = "START" }]
    }, {
    name              = "side"
    image             = "envoy:1"
    memoryReservation = 64
    essential         = false
  }])
}

resource "aws_ecs_service" "svc" {
  for_each                           = local.services
  name                               = each.key
  cluster                            = aws_ecs_cluster.fleet[each.value.cluster].arn
  task_definition                    = aws_ecs_task_definition.svc[each.key].arn
  desired_count                      = each.value.count
  wait_for_steady_state              = true
  propagate_tags                     = "TASK_DEFINITION"
  enable_execute_command             = true
  deployment_minimum_healthy_percent = 50
  deployment_maximum_percent         = 200
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }
  placement_constraints {
    type       = "memberOf"
    expression = "attribute:ecs.instance-type =~ (m5|c5).*"
  }
  dynamic "placement_constraints" {
    for_each = each.value.count > 2 ? [1] : []
    content {
      type = "distinctInstance"
    }
  }
  ordered_placement_strategy {
    type  = "spread"
    field = "attribute:ecs.availability-zone"
  }
  ordered_placement_strategy {
    type  = "binpack"
    field = "memory"
  }
  tags       = { service = each.key }
  depends_on = [aws_ecs_cluster_capacity_providers.fleet]
  lifecycle {
    ignore_changes = [capacity_provider_strategy]
  }
}

resource "aws_ecs_task_definition" "daemon" {
  family                = "agent"
  container_definitions = jsonencode([{ name = "agent", image = "agent:1", cpu = 16, memory = 32 }])
}

resource "aws_ecs_service" "daemon" {
  for_each            = local.clusters
  name                = "agent"
  cluster             = aws_ecs_cluster.fleet[each.key].id
  task_definition     = aws_ecs_task_definition.daemon.arn
  scheduling_strategy = "DAEMON"
}

data "aws_ecs_cluster" "a" {
  cluster_name = aws_ecs_cluster.fleet["fleet-a"].name
}
data "aws_ecs_service" "one" {
  service_name = aws_ecs_service.svc["svc-2"].name
  cluster_arn  = data.aws_ecs_cluster.a.arn
}
data "aws_ecs_task_definition" "one" {
  task_definition = aws_ecs_task_definition.svc["svc-2"].family
}
data "aws_ecs_container_definition" "one" {
  task_definition = aws_ecs_task_definition.svc["svc-2"].arn
  container_name  = "app"
}
resource "aws_launch_template" "pool" {
  name          = "fleet-pool"
  image_id      = "ami-1"
  instance_type = "t3.medium"
  user_data     = base64encode("#!/bin/bash\necho ECS_CLUSTER=fleet-a >> /etc/ecs/ecs.config\n")
}
resource "aws_autoscaling_group" "pool" {
  name               = "fleet-pool"
  min_size           = 1
  max_size           = 2
  desired_capacity   = 1
  availability_zones = ["us-east-1a"]
  launch_template {
    id      = aws_launch_template.pool.id
    version = "1"
  }
  tag {
    key                 = "berth:installation"
    value               = var.installation
    propagate_at_launch = false
  }
  lifecycle {
    ignore_changes = [launch_template, min_size, max_size, desired_capacity]
  }
  depends_on = [aws_ecs_cluster.fleet]
}
resource "aws_eks_node_group" "pool" {
  cluster_name    = "fleet-a"
  node_group_name = "pool"
  node_role_arn   = "arn:aws:iam::123456789012:role/nodes"
  subnet_ids      = ["subnet-1"]
  launch_template {
    id      = aws_launch_template.pool.id
    version = aws_launch_template.pool.latest_version
  }
  scaling_config {
    min_size     = 1
    max_size     = 2
    desired_size = 1
  }
  update_config {
    max_unavailable = 1
  }
  labels = { team = "shop" }
  tags   = { "berth:auto-scaling-group" = aws_autoscaling_group.pool.name }
}
resource "aws_ecs_service" "plain" {
  lifecycle {
    ignore_changes = [tags, tags_all]
  }
  name    = "plain"
  cluster = aws_ecs_cluster.fleet["fleet-a"].id
  # As the provider imports it: with the ARN, an import would be followed by an update.
  task_definition = "${aws_ecs_task_definition.daemon.family}:${aws_ecs_task_definition.daemon.revision}"
  desired_count   = 1
  launch_type     = "EC2"
}
resource "aws_ecs_tag" "extra" {
  resource_arn = aws_ecs_service.plain.id
  key          = "extra"
  value        = "yes"
}

resource "aws_elb" "front" {
  name                        = "fleet-front"
  availability_zones          = ["us-east-1a", "us-east-1b"]
  connection_draining         = true
  connection_draining_timeout = 1
  listener {
    instance_port     = 8085
    instance_protocol = "http"
    lb_port           = 80
    lb_protocol       = "http"
  }
  health_check {
    target              = "HTTP:8085/ready"
    interval            = 10
    timeout             = 3
    healthy_threshold   = 2
    unhealthy_threshold = 3
  }
}
resource "aws_ecs_task_definition" "front" {
  family = "front"
  container_definitions = jsonencode([{
    name         = "front", image = "front:1", cpu = 16, memory = 32
    portMappings = [{ containerPort = 80, hostPort = 8085 }]
  }])
}
resource "aws_ecs_service" "front" {
  name                  = "front"
  cluster               = aws_ecs_cluster.fleet["fleet-b"].id
  task_definition       = aws_ecs_task_definition.front.arn
  desired_count         = 1
  wait_for_steady_state = true
  load_balancer {
    elb_name       = aws_elb.front.name
    container_name = "front"
    container_port = 80
  }
  depends_on = [aws_ecs_cluster_capacity_providers.fleet]
  lifecycle {
    ignore_changes = [capacity_provider_strategy]
  }
}

output "seen" {
  value = join(" ", [
    data.aws_ecs_cluster.a.status, data.aws_ecs_cluster.a.tags["owner"], data.aws_ecs_service.one.desired_count,
    data.aws_ecs_service.one.scheduling_strategy, data.aws_ecs_container_definition.one.image,
    data.aws_ecs_container_definition.one.environment["NAME"], data.aws_ecs_task_definition.one.network_mode,
  ])
}
