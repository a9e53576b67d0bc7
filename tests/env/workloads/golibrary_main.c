// SPDX-License-Identifier: GPL-2.0
/* Runs the Go program that is built as a library: LIBRARY, which is opened, or else the linked one.
 */
#ifdef LIBRARY
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
#else
void GoMain(void);

int main(void)
{
	GoMain();
	return 0;
}
#endif
