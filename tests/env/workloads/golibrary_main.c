// SPDX-License-Identifier: GPL-2.0
/* Opens LIBRARY, and runs its main(). */
#include <dlfcn.h>

int main(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW);
	void (*go_main)(void) = library ? (void (*)(void))dlsym(library, "GoMain") : 0;

	if (!go_main)
		return 1;
	go_main();
	return 0;
}
