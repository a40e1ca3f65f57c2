# A cluster whose machines come and go with its tasks (web), and a group of nodes that is updated
# by versions of its launch template (pool).

terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

variable "ecs" {}          # Berth
variable "autoscaling" {}
variable "elbv2" {}
variable "ec2" {}
variable "installation" {} # may change the groups
variable "image" { default = "nginx:1" }
variable "desired" { default = 2 }
variable "ami" { default = "ami-1" }
variable "team" { default = "made" }
variable "effect" { default = "NO_SCHEDULE" }
variable "release" { default = "al2023-ami-ecs-hvm-2023.0.20260901-kernel-6.1-x86_64" }

provider "aws" {
  skip_credentials_validation = true
  skip_requesting_account_id  = true
  skip_metadata_api_check     = true
  endpoints {
    ecs         = var.ecs
    eks         = var.ecs
    autoscaling = var.autoscaling
    elbv2       = var.elbv2
    ec2         = var.ec2
  }
  default_tags {
    tags = { stack = "story" }
  }
}

resource "aws_ecs_cluster" "story" {
  name = "terraform"
  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_launch_template" "web" {
  name_prefix   = "terraform-web-"
  image_id      = "ami-1"
  instance_type = "m5.large"
  user_data     = base64encode("#!/bin/bash\necho ECS_CLUSTER=terraform >> /etc/ecs/ecs.config\n")
}

resource "aws_autoscaling_group" "web" {
  name                  = "terraform-web"
  min_size              = 0
  max_size              = 6
  availability_zones    = ["us-east-1a", "us-east-1b"]
  protect_from_scale_in = true
  launch_template {
    id      = aws_launch_template.web.id
    version = aws_launch_template.web.latest_version
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

resource "aws_ecs_capacity_provider" "web" {
  name = "terraform-web"
  auto_scaling_group_provider {
    auto_scaling_group_arn         = aws_autoscaling_group.web.arn
    managed_termination_protection = "ENABLED"
    managed_draining               = "ENABLED"
    managed_scaling {
      status          = "ENABLED"
      target_capacity = 100
    }
  }
}

resource "aws_ecs_cluster_capacity_providers" "story" {
  cluster_name       = aws_ecs_cluster.story.name
  capacity_providers = [aws_ecs_capacity_provider.web.name]
  default_capacity_provider_strategy {
    capacity_provider = aws_ecs_capacity_provider.web.name
    weight            = 1
  }
}

resource "aws_lb_target_group" "web" {
  name                 = "terraform-web"
  port                 = 80
  protocol             = "HTTP"
  vpc_id               = "vpc-1"
  deregistration_delay = 5
  health_check {
    path    = "/ready"
    matcher = "200-299"
  }
}

resource "aws_ecs_task_definition" "web" {
  family                   = "terraform-web"
  requires_compatibilities = ["EC2"]
  container_definitions = jsonencode([{
    name         = "web"
    image        = var.image
    cpu          = 256
    memory       = 512
    essential    = true
    environment  = [{ name = "STAGE", value = "test" }]
    portMappings = [{ containerPort = 80 }]
  }])
}

resource "aws_ecs_service" "web" {
  name                    = "web"
  cluster                 = aws_ecs_cluster.story.id
  task_definition         = aws_ecs_task_definition.web.arn
  desired_count           = var.desired
  wait_for_steady_state   = true
  propagate_tags          = "SERVICE"
  enable_ecs_managed_tags = true
  capacity_provider_strategy {
    capacity_provider = aws_ecs_capacity_provider.web.name
    weight            = 1
  }
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }
  ordered_placement_strategy {
    type  = "spread"
    field = "attribute:ecs.availability-zone"
  }
  load_balancer {
    target_group_arn = aws_lb_target_group.web.arn
    container_name   = "web"
    container_port   = 80
  }
  depends_on = [aws_ecs_cluster_capacity_providers.story]
}

resource "aws_launch_template" "pool" {
  name          = "terraform-pool"
  image_id      = var.ami
  instance_type = "t3.medium"
  user_data     = base64encode("#!/bin/bash\necho ECS_CLUSTER=terraform >> /etc/ecs/ecs.config\n")
}

resource "aws_autoscaling_group" "pool" {
  name               = "terraform-pool"
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
  # An update of the nodes changes these, for as long as it takes or for good.
  lifecycle {
    ignore_changes = [launch_template, min_size, max_size, desired_capacity]
  }
  depends_on = [aws_ecs_cluster.story]
}

resource "aws_eks_node_group" "pool" {
  cluster_name    = aws_ecs_cluster.story.name
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

# Nodes whose Auto Scaling group, launch template and instance profile Berth makes.
resource "aws_eks_node_group" "made" {
  cluster_name    = aws_ecs_cluster.story.name
  node_group_name = "made"
  node_role_arn   = "arn:aws:iam::123456789012:role/nodes"
  subnet_ids      = ["subnet-1"]
  instance_types  = ["t3.medium", "t3.large"]
  capacity_type   = "SPOT"
  disk_size       = 40
  release_version = var.release
  scaling_config {
    min_size     = 1
    max_size     = 2
    desired_size = 1
  }
  update_config {
    max_unavailable = 1
  }
  labels = { (var.team) = "yes", stays = "here" }
  taint {
    key    = "dedicated"
    value  = "made"
    effect = var.effect
  }
}

# Nodes of a custom image: Berth makes the rest from a launch template.
resource "aws_eks_node_group" "custom" {
  cluster_name    = aws_ecs_cluster.story.name
  node_group_name = "custom"
  node_role_arn   = "arn:aws:iam::123456789012:role/nodes"
  subnet_ids      = ["subnet-1"]
  ami_type        = "CUSTOM"
  launch_template {
    id      = aws_launch_template.pool.id
    version = aws_launch_template.pool.latest_version
  }
  scaling_config {
    min_size     = 1
    max_size     = 2
    desired_size = 1
  }
}

output "desired" {
  value = aws_ecs_service.web.desired_count
}

# A service that is deployed by hand, by task sets.
resource "aws_ecs_service" "by_hand" {
  name          = "by-hand"
  cluster       = aws_ecs_cluster.story.id
  desired_count = 2
  deployment_controller {
    type = "EXTERNAL"
  }
}

resource "aws_ecs_task_set" "blue" {
  service           = aws_ecs_service.by_hand.id
  cluster           = aws_ecs_cluster.story.id
  task_definition   = aws_ecs_task_definition.web.arn
  external_id       = "blue"
  launch_type       = "EC2"
  force_delete      = true
  wait_until_stable = true
  scale {
    value = 0
  }
}
