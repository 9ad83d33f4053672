# The things one does with this repository. Each target is a script in scripts/, so that it can be
# read, and run alone. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help demo test fix bench-server posix-suite soak

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build, serve a new store, mount it with the real Linux client, and do visible work
	@scripts/demo

test: ## Prove everything: format, lints, architecture, unit tests, the real Linux client
	@scripts/test

fix: ## Format the code and apply what the linter can mend by itself
	@scripts/fix

bench-server: ## Compare Meridian with NFS-Ganesha on this machine
	@scripts/bench-server

soak: ## Simulate random runs of the replication protocol for SOAK_MINUTES minutes (default 10)
	@scripts/soak

posix-suite: ## Run an independent POSIX suite through the real Linux client
	@scripts/posix-suite
